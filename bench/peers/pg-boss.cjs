// pg-boss: send or insert, fetch, complete. Its own upkeep is switched off for the minute of the run.

'use strict'

const PgBoss = require('pg-boss')

exports.open = async ({ dsn, connections }) => {
  const boss = new PgBoss({ connectionString: dsn, max: connections, supervise: false, schedule: false })
  boss.on('error', (error) => { throw error })
  await boss.start()
  const name = `q${Date.now()}-${process.pid}`
  await boss.createQueue(name)
  return {
    async push(payloads) {
      if (payloads.length === 1) await boss.send(name, payloads[0])
      else await boss.insert(payloads.map((data) => ({ name, data })))
    },
    async take(batchSize) {
      const jobs = await boss.fetch(name, { batchSize })
      if (jobs.length > 0) await boss.complete(name, jobs.map((job) => job.id))
      return jobs.map((job) => job.data)
    },
    async close() {
      await boss.clearStorage()
      await boss.stop({ graceful: false, wait: false })
    },
  }
}
