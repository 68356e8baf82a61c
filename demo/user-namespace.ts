import { spawnSync } from "node:child_process";

const marker = "HOLDFAST_DEMO_IN_NAMESPACE";

/** Without root the same program runs as root of a user namespace with its own mounts. Answers its exit code. */
export const enterUserNamespace = (args: readonly string[]): number => {
  const refused = (why: string): number => {
    console.error(
      [
        `The demo makes a real mount. It is not run by root, and a user namespace could not be entered (${why}).`,
        "Run it as root (`sudo npm run demo`), or allow user namespaces (`sysctl -w kernel.unprivileged_userns_clone=1`;",
        "with AppArmor also `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`).",
      ].join("\n"),
    );
    return 1;
  };
  if (process.env[marker] !== undefined) return refused("inside it the user is still not root");
  const namespace = ["--user", "--map-root-user", "--mount"];
  const probe = spawnSync("unshare", [...namespace, "true"], { encoding: "utf8" });
  if (probe.error !== undefined) return refused(probe.error.message);
  if (probe.status !== 0) return refused(probe.stderr.trim());
  const run = spawnSync("unshare", [...namespace, process.execPath, ...args], {
    stdio: "inherit",
    env: { ...process.env, [marker]: "1" },
  });
  return run.status ?? 1;
};
