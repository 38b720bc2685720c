// Writes a small memory with the real package: `node ai_sdk_memory.mjs PACKAGES redis|postgres URL`.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [packages, kind, url] = process.argv.slice(2)
const require = createRequire(`${packages}/package.json`)
const load = name => import(pathToFileURL(require.resolve(name)).href)
const at = new Date('2026-03-01T09:30:00Z')

async function fill(provider) {
  const spoken = (id, role, parts) => ({ id, role, parts })
  const tool = { type: 'tool-kettle', toolCallId: 'call-1', state: 'output-available', input: { degrees: 80 }, output: 'done' }
  const said = [
    ['user', 'I drink oolong.'],
    ['assistant', JSON.stringify(spoken('m2', 'assistant', [{ type: 'reasoning', text: 'hm' }, tool, { type: 'text', text: 'Ready.' }]))],
    ['user', JSON.stringify(spoken('m3', 'user', [{ type: 'text', text: 'Thanks!' }]))],
  ]
  for (const [role, content] of said)
    await provider.saveMessage({ chatId: 'monday', userId: 'ann', role, content, timestamp: at })
  await provider.saveMessage({ chatId: 'other', userId: 'bob', role: 'user', content: 'I drink water.', timestamp: at })
  await provider.saveChat({ chatId: 'monday', userId: 'ann', title: 'Tea', createdAt: at, updatedAt: at, messageCount: 3 })
  await provider.updateWorkingMemory({ scope: 'user', userId: 'ann', content: '# Ann\n- likes oolong at 80 degrees' })
  await provider.updateWorkingMemory({ scope: 'chat', chatId: 'monday', content: '# Plan\n- buy a gaiwan' })
}

if (kind === 'redis') {
  const { RedisProvider } = await load('@ai-sdk-tools/memory/redis')
  const client = await require('redis').createClient({ url }).connect()
  await fill(new RedisProvider(client))
  await client.quit()
} else {
  const { DrizzleProvider, SQL_SCHEMAS } = await load('@ai-sdk-tools/memory/drizzle')
  const { pgTable, text, serial, timestamp, integer } = await load('drizzle-orm/pg-core')
  const { drizzle } = await load('drizzle-orm/postgres-js')
  const client = require('postgres')(url, { onnotice: () => {} })
  for (const statement of Object.values(SQL_SCHEMAS.postgresql)) await client.unsafe(statement)
  const time = name => timestamp(name).notNull()
  const workingMemoryTable = pgTable('working_memory', { id: text('id').primaryKey(), scope: text('scope'),
    chatId: text('chat_id'), userId: text('user_id'), content: text('content'), updatedAt: time('updated_at') })
  const messagesTable = pgTable('conversation_messages', { id: serial('id').primaryKey(), chatId: text('chat_id'),
    userId: text('user_id'), role: text('role'), content: text('content'), timestamp: time('timestamp') })
  const chatsTable = pgTable('chat_sessions', { chatId: text('chat_id').primaryKey(), userId: text('user_id'),
    title: text('title'), createdAt: time('created_at'), updatedAt: time('updated_at'), messageCount: integer('message_count') })
  await fill(new DrizzleProvider(drizzle(client), { workingMemoryTable, messagesTable, chatsTable }))
  await client.end()
}
