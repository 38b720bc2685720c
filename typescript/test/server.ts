/** A real `recollect serve` on a local port, with its memories in a folder that is deleted when it stops. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";

/** The Python that has Recollect installed; `make typescript` sets it to this repository's. */
const PYTHON = process.env["RECOLLECT_PYTHON"] ?? "python3";

export interface Server {
  url: string;
  /** Runs a `recollect` command on the server's file and returns what it prints. */
  command(...words: string[]): Promise<string>;
  stop(): Promise<void>;
}

export async function started(): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), "recollect-ai-sdk-"));
  const file = `sqlite:///${join(folder, "memory.db")}`;
  const serving = recollect(folder, ["serve", "--port", "0", "--url", file]);
  const line = await firstLine(serving.stdout);
  const url = /http:\/\/[\d.]+:\d+/.exec(line)?.[0];
  if (url === undefined) throw new Error(`the server said: ${line}`);
  return {
    url,
    command: (...words) => printed(recollect(folder, [...words, "--url", file])),
    stop: async () => {
      serving.kill();
      if (serving.exitCode === null) await once(serving, "exit");
      await rm(folder, { recursive: true });
    },
  };
}

function recollect(folder: string, words: string[]) {
  const named = Object.entries(process.env).filter(([name]) => !/^RECOLLECT_(?!PYTHON)/.test(name));
  const command = ["-m", "recollect", ...words];
  return spawn(PYTHON, command, { cwd: folder, env: Object.fromEntries(named), stdio: ["ignore", "pipe", "ignore"] });
}

async function firstLine(output: Readable): Promise<string> {
  let text = "";
  for await (const piece of output.iterator({ destroyOnReturn: false })) {
    text += String(piece);
    if (text.includes("\n")) break;
  }
  output.resume();
  return text;
}

async function printed(running: ReturnType<typeof recollect>): Promise<string> {
  let text = "";
  for await (const piece of running.stdout) text += String(piece);
  return text;
}
