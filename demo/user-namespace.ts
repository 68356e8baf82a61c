import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";

const marker = "HOLDFAST_DEMO_IN_NAMESPACE";

/** Whether this program was started again by the one below. */
export const inNamespace = (): boolean => process.env[marker] !== undefined;

/** Without root the same program runs as root of a user namespace with its own mounts. Answers its exit code. */
export const enterUserNamespace = async (args: readonly string[]): Promise<number> => {
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
  if (inNamespace()) return refused("inside it the user is still not root");
  const namespace = ["--user", "--map-root-user", "--mount"];
  const probe = spawnSync("unshare", [...namespace, "true"], { encoding: "utf8" });
  if (probe.error !== undefined) return refused(probe.error.message);
  if (probe.status !== 0) return refused(probe.stderr.trim());
  // unshare becomes the program: what it is sent, the program is sent.
  const run = spawn("unshare", [...namespace, process.execPath, ...args], {
    stdio: "inherit",
    env: { ...process.env, [marker]: "1" },
  });
  // A terminal sends Ctrl-C to both; this one has to stay until the other has cleaned up.
  process.on("SIGINT", () => undefined);
  process.on("SIGTERM", () => run.kill("SIGTERM"));
  const [code] = (await once(run, "exit")) as [number | null];
  return code ?? 1;
};
