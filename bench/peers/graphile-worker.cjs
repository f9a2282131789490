// graphile-worker: addJob or addJobs; its own runner takes the jobs out, a batch at a time through its local queue.

'use strict'

const { Pool } = require('pg')
const { Logger, makeWorkerUtils, run } = require('graphile-worker')

const quiet = new Logger(() => () => {})

exports.open = async ({ dsn, connections, batch }) => {
  const pgPool = new Pool({ connectionString: dsn, max: connections + 2 })
  // A broken connection shows in the next statement.
  pgPool.on('error', () => {})
  pgPool.on('connect', (client) => client.on('error', () => {}))
  const utils = await makeWorkerUtils({ pgPool, logger: quiet })
  await utils.migrate()
  await pgPool.query('TRUNCATE graphile_worker._private_jobs')
  let runner
  return {
    async push(payloads) {
      if (payloads.length === 1) await utils.addJob('job', payloads[0])
      else await utils.addJobs(payloads.map((payload) => ({ identifier: 'job', payload })))
    },
    async work(took) {
      const batched = { localQueue: { size: Math.max(batch, connections) }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
      runner = await run({
        pgPool,
        noHandleSignals: true,
        preset: { worker: { logger: quiet, concurrentJobs: connections, pollInterval: 100, ...(batch > 1 ? batched : {}) } },
        taskList: { job: async () => {} },
      })
      // Told when the end of the job is stored, which is what counts as acknowledged.
      runner.events.on('job:complete', ({ job }) => took([job.payload]))
    },
    // The runner's workers end with the process; asking them to end would be measured by nobody.
    async close() {},
  }
}
