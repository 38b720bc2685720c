// Starts the Cosmos DB emulator of npm (@vercel/cosmosdb-server) on this machine alone, and prints its port.
//
//   node cosmos_emulator.js FOLDER_OF_THE_PACKAGE
//
// It is mended where it is not like the service:
// - A batch takes all its operations or none, in one turn of the event loop, and keeps the service's limits:
//   100 operations, 2 MB, ids of 1,023 bytes without / \ ? #. The emulator's own stops half way.
// - Reading a document that is not there is a 404, not a failure; a 404 of a container says that it is one.
// - An index over several fields serves both directions.
// POST /throttle?count=3&after_ms=20 makes it answer the next three calls with 429.
"use strict";

const lib = `${process.argv[2]}/lib`;
const handlers = `${lib}/handler`;
const readBody = require(`${lib}/json`).default;
const operations = require(`${handlers}/_document-operations`);

const OPERATIONS_MAX = 100;
const BODY_MAX_BYTES = 2 * 1024 * 1024;
const ID_MAX_BYTES = 1023;
const APPLY = {
  Create: operations.createOperation,
  Upsert: operations.upsertOperation,
  Replace: operations.replaceOperation,
  Delete: operations.deleteOperation,
};

function hasGoodId(input) {
  const id = String(input.id || input.resourceBody.id);
  return Buffer.byteLength(id) <= ID_MAX_BYTES && !/[/\\?#]/.test(id) && !id.endsWith(" ");
}

// The status that an operation would have, without doing it.
function foresee(collection, partition, input) {
  if (!(input.operationType in APPLY) || !hasGoodId(input)) return 400;
  const id = input.id || input.resourceBody.id;
  const known = collection.document(id, partition).read();
  if (input.operationType === "Create") return known ? 409 : 200;
  if (!known) return input.operationType === "Upsert" ? 200 : 404;
  return input.ifMatch && input.ifMatch !== known._etag ? 412 : 200;
}

function containerIsGone(res) {
  res.statusCode = 404;
  res.setHeader("x-ms-substatus", "1003");
  return { code: "NotFound", message: "no such container" };
}

async function batch(account, req, res, { dbId, collId }) {
  const collection = account.database(dbId).collection(collId);
  const inputs = await readBody(req);
  const partitionKey = req.headers["x-ms-documentdb-partitionkey"];
  const [partition] = JSON.parse(partitionKey);
  if (!collection.read()) return containerIsGone(res);
  if (!(Number(req.headers["content-length"]) <= BODY_MAX_BYTES)) {
    res.statusCode = 413;
    return {};
  }
  if (inputs.length > OPERATIONS_MAX) {
    res.statusCode = 400;
    return { message: "too many operations" };
  }
  const foreseen = inputs.map(input => foresee(collection, partition, input));
  const wrong = foreseen.findIndex(status => status >= 400);
  if (wrong >= 0) {
    res.statusCode = 207;
    return foreseen.map((status, place) => ({ statusCode: place === wrong ? status : 424, requestCharge: 1 }));
  }
  return inputs.map(input => {
    const { statusCode, body } = APPLY[input.operationType](collection, { ...input, partitionKey });
    return { statusCode, requestCharge: 1, eTag: body ? body._etag : undefined };
  });
}

// Puts another handler in the place of one of the emulator's, which it is given to call.
function mend(name, make) {
  const handler = require(`${handlers}/${name}`);
  handler.default = make(handler.default);
}

mend("batch-documents", () => batch);

mend("read-document", read => (account, req, res, params) => {
  const [partition] = JSON.parse(req.headers["x-ms-documentdb-partitionkey"]);
  const collection = account.database(params.dbId).collection(params.collId);
  if (!collection.read()) return containerIsGone(res);
  if (collection.document(params.docId, partition).read()) return read(account, req, res, params);
  res.statusCode = 404;
  return { code: "NotFound", message: "no such document" };
});

mend("create-collection", create => async (...call) => {
  const made = await create(...call);
  const indexes = (made.indexingPolicy || {}).compositeIndexes || [];
  indexes.push(...indexes.map(index => index.map(({ path }) => ({ path, order: "descending" }))));
  return made;
});

// The handlers above must stand in their places before the routes are made.
const server = require(lib).createHttpServer({ keepAlive: true });
const [answer] = server.listeners("request");
const throttle = { count: 0, afterMs: 0 };
server.removeAllListeners("request");
server.on("request", (req, res) => {
  const url = new URL(req.url, "http://emulator");
  if (url.pathname === "/throttle") {
    throttle.count = Number(url.searchParams.get("count"));
    throttle.afterMs = Number(url.searchParams.get("after_ms"));
    res.end();
  } else if (throttle.count > 0) {
    throttle.count -= 1;
    res.writeHead(429, { "x-ms-retry-after-ms": throttle.afterMs, "content-type": "application/json" });
    req.resume().on("end", () => res.end('{"message": "too many requests"}'));
  } else {
    answer(req, res);
  }
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit());
