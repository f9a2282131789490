// Closed-loop load on a job library for Node.js: `node measure.cjs LIBRARY {"verb":…}`.
//
// Prints `begin` when the measured window opens and `end {…}` when it closes, so that whoever started this can read the CPU
// counters of the database at those moments. A library is a file beside this one that exports open(), which returns
// { push(payloads), take(batch) or work(done), close() }.

'use strict'

const path = require('node:path')

const FILL = { batch: 100, connections: 8 }
const STALL_MS = 5000

/** Payloads of an exact size whose text follows from their number, so that a damaged one is known. */
class Books {
  constructor(bytes) {
    this.bytes = bytes
    this.sent = 0
    this.seen = new Set()
    this.text = Array.from({ length: 4096 + bytes }, () => 'abcdefghijklmnopqrstuvwxyz0123456789'[Math.floor(Math.random() * 36)]).join('')
  }

  payload(number) {
    const room = this.bytes - `{"n":${number},"p":""}`.length
    const start = (number * 2654435761) % 4096
    return { n: number, p: this.text.slice(start, start + room) }
  }

  next(count) {
    return Array.from({ length: count }, () => this.payload(this.sent++))
  }

  check(payload) {
    if (payload.p !== this.payload(payload.n).p || payload.n >= this.sent) throw new Error('a message came back damaged')
    if (this.seen.has(payload.n)) throw new Error('a message came twice')
    this.seen.add(payload.n)
  }
}

const now = () => performance.now()
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const say = (line) => process.stdout.write(line + '\n')

function clock() {
  say('begin')
  const start = now()
  const cpu = process.cpuUsage()
  return (messages, end) => {
    const used = process.cpuUsage(cpu)
    say('end ' + JSON.stringify({ messages, seconds: ((end ?? now()) - start) / 1000, clientCpuMicros: used.user + used.system }))
  }
}

async function push(queue, books, { batch, connections, warmupMs, measuredMs }) {
  let measuring = false, stopped = false, count = 0
  const loops = Array.from({ length: connections }, async () => {
    while (!stopped) {
      await queue.push(books.next(batch))
      if (measuring) count += batch
    }
  })
  const window = (async () => {
    await sleep(warmupMs)
    const end = clock()
    measuring = true
    await sleep(measuredMs)
    measuring = false
    end(count)
    stopped = true
  })()
  await Promise.all([window, ...loops])
}

async function fill(queue, books, stock) {
  await Promise.all(Array.from({ length: FILL.connections }, async () => {
    while (books.sent < stock) await queue.push(books.next(FILL.batch))
  }))
}

async function pop(queue, books, { batch, connections, measuredMs, stock }) {
  await fill(queue, books, stock)
  let end, deadline, count = 0, taken = 0, last = now()
  const begin = () => {
    end = clock()
    deadline = now() + measuredMs
  }
  const took = (payloads) => {
    for (const payload of payloads) books.check(payload)
    taken += payloads.length
    last = now()
    // A runner's start is not its work: the window opens with the first job it has done.
    if (end) count += payloads.length
    else begin()
  }
  const going = () => !end || (now() < deadline && taken < books.sent)
  const stalled = () => { if (now() - last > STALL_MS) throw new Error('nothing comes, and not everything has come') }
  if (queue.work) {
    await queue.work(took)
    while (going()) { stalled(); await sleep(2) }
  } else {
    begin()
    await Promise.all(Array.from({ length: connections }, async () => {
      while (going()) {
        const payloads = await queue.take(batch)
        if (payloads.length > 0) took(payloads)
        else { stalled(); await sleep(1) }
      }
    }))
  }
  end(count, Math.min(last, deadline))
}

async function main() {
  const [library, text] = process.argv.slice(2)
  const options = JSON.parse(text)
  const { open } = require(path.join(__dirname, library + '.cjs'))
  const queue = await open(options)
  await (options.verb === 'push' ? push : pop)(queue, new Books(options.bytes), options)
  await queue.close()
}

main().then(() => process.exit(0), (error) => {
  process.stderr.write(String(error.stack ?? error) + '\n')
  process.exit(1)
})
