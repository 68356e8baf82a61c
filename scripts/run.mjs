// The door to every command of this repository: `npm run <task>` comes here.
//
// It runs on whatever Node the user has (20 is enough) and needs no node_modules: it installs what the lock file says,
// generates what is generated, sees to the programs the task needs, and hands over to the pinned Node 26.
import { checkTask } from "./check.mjs";
import { devNode } from "./dev-node.mjs";
import { generate } from "./generate.mjs";
import { installWhenStale } from "./install.mjs";
import { withInstallLock } from "./install-lock.mjs";
import { reportFailure } from "./problem.mjs";
import { runChild } from "./run-child.mjs";
import { ensureSystemNeeds } from "./system-needs.mjs";
import { testTask } from "./test.mjs";

const testNeeds = ["redis-server", "mount", "mkfs.ext4", "mkfs.xfs", "openssl", "xz", "curl", "ip"];

/** What each task needs from the machine, and what it runs once everything is there. */
const tasks = {
  generate: { needs: [], run: async () => 0 },
  check: { needs: [], run: checkTask },
  "api-baseline": {
    needs: [],
    run: (context) => runChild(context.node, ["scripts/api-baseline.mjs", ...context.args], context),
  },
  test: {
    needs: testNeeds,
    run: (context) => testTask({ ...context, full: false }),
  },
  "test:full": {
    needs: [...testNeeds, "unshare"],
    run: (context) => testTask({ ...context, full: true }),
  },
  model: {
    needs: [],
    run: (context) => runChild(context.node, ["test/model/main.ts", ...context.args], context),
  },
  demo: {
    // Without root there are directories only, in a user namespace.
    needs: process.getuid?.() === 0 ? ["mount", "mkfs.ext4"] : ["mount", "unshare"],
    run: (context) => runChild(context.node, ["demo/main.ts", ...context.args], context),
  },
  docs: {
    needs: [],
    run: (context) => runChild(context.node, ["scripts/docs/main.ts", ...context.args], context),
  },
  bundle: {
    needs: [],
    run: (context) => runChild(context.node, ["scripts/bundle.mjs"], context),
  },
  bench: {
    needs: ["redis-server"],
    run: (context) => runChild(context.node, ["bench/main.ts", ...context.args], context),
  },
};

async function main() {
  const [name = "", ...args] = process.argv.slice(2);
  const task = Object.hasOwn(tasks, name) ? tasks[name] : undefined;
  if (task === undefined) {
    console.error(`usage: node scripts/run.mjs <${Object.keys(tasks).join("|")}> [arguments]`);
    return 64;
  }
  const prepared = await withInstallLock(async () => {
    await installWhenStale();
    await ensureSystemNeeds(task.needs);
    const runtime = devNode();
    await generate(runtime);
    return runtime;
  });
  return task.run({ ...prepared, args });
}

process.exitCode = await main().catch(reportFailure);
