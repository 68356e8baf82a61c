/**
 * `npm run demo -- --tls`: from nothing to a controller and two nodes that know each other by certificates. Every line that is shown is a
 * command that an operator would give; each is a process of its own, and what must be refused is refused.
 */
import { spawnSync } from "node:child_process";
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { ManagedProcess } from "../test/harness/managed-process.ts";
import { startTrustedAgent, startTrustedController } from "../test/harness/trusted-processes.ts";
import { childEnvironment } from "../test/support/child-environment.ts";

const repo = path.resolve(import.meta.dirname, "..");
const domain = "demo.example";

type Say = (text: string) => void;

/** Answers what it printed. `refused`: it has to fail, with these words. */
const commandLine = (dir: string, say: Say) => (line: string, refused?: RegExp) => {
  say(`\n  $ holdfast ${line.replaceAll(`${dir}/`, "")}`);
  const args = [path.join(repo, "packages/cli/src/main.ts"), ...line.split(" ")];
  const env = { ...childEnvironment(), HOME: dir };
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { encoding: "utf8", env });
  const text = `${stdout}${stderr}`.trim();
  say(text.replaceAll(`${dir}/`, "").replace(/^/gm, "    "));
  if (refused === undefined ? status !== 0 : status === 0 || !refused.test(text))
    throw new Error(
      `holdfast ${line}: ended with ${status}, ${refused === undefined ? "" : "which is no refusal as "}${refused ?? ""}`,
    );
  return stdout;
};

const enrolment = async (dir: string, say: Say, started: (one: ManagedProcess) => void): Promise<void> => {
  const holdfast = commandLine(dir, say);
  const at = (...parts: readonly string[]): string => path.join(dir, ...parts);
  say("\n── An authority: the root's key belongs offline, the issuing key to the controllers");
  holdfast(`ca init --trust-domain ${domain} --dir ${at("ca")}`);
  holdfast(`ca issue controller/c-1 --dir ${at("ca")} --out ${at("controller", "tls")}`);
  holdfast(`ca issue operator/ada --dir ${at("ca")} --out ${at("ada")} --ttl 8h`);
  holdfast(`ca issue scheduler/nomad --dir ${at("ca")} --out ${at("nomad")}`);

  say("\n── A controller with TLS");
  const { process: controller, address, agents } = await startTrustedController(dir, "controller", started);
  const as = (who: string): string => `--address ${address} --certs ${at(who)}`;

  say("\n── Two nodes: node-a by the command that the token came with, node-b by its settings");
  const [, command = ""] = holdfast(`node token node-a ${as("ada")}`).split("\n");
  const enrol = command.replace(/^holdfast /, "").replace("/etc/holdfast/tls", at("node-a", "tls"));
  holdfast(enrol);
  const controllers = { HOLDFAST_CONTROLLERS: agents };
  await startTrustedAgent(dir, "node-a", started, controllers);
  const printed = holdfast(`node token node-b ${as("ada")}`);
  const [token = "", pin = ""] = [/--token (\S+)/, /--pin (\S+)/].map((given) => given.exec(printed)?.[1] ?? "");
  await writeFile(at("token-b"), token, { mode: 0o600 });
  await startTrustedAgent(dir, "node-b", started, {
    ...controllers,
    HOLDFAST_ENROL_TOKEN_FILE: at("token-b"),
    HOLDFAST_ENROL_PIN: pin,
  });
  holdfast(`node list ${as("ada")}`);

  say("\n── A scheduler with a certificate of its own: it may use what an operator grants");
  holdfast(`volume list -n shop ${as("nomad")}`, /PERMISSION_DENIED/);
  holdfast(`grant set nomad --namespaces shop --plugins * --reason demo ${as("ada")}`);
  holdfast(`volume list -n shop ${as("nomad")}`);
  holdfast(`volume list -n bank ${as("nomad")}`, /PERMISSION_DENIED/);
  holdfast(`node fence node-a --reason demo ${as("nomad")}`, /PERMISSION_DENIED/);

  say("\n── What is refused: a token once more, a stranger, and a node that was revoked");
  holdfast(enrol.replace("node-a/tls", "again"), /it was used before/);
  holdfast(`ca init --trust-domain ${domain} --dir ${at("foreign")}`);
  holdfast(`ca issue operator/eve --dir ${at("foreign")} --out ${at("eve")}`);
  say("\n  $ cat ada/ca.crt >> eve/ca.crt    # so that it is the controller who refuses");
  await appendFile(at("eve", "ca.crt"), await readFile(at("ada", "ca.crt")));
  holdfast(`node list --timeout 3s ${as("eve")}`, /UNAVAILABLE/);
  await controller.line(
    ({ message }) => String(message).includes("does not verify; its connection was ended"),
    "the end of the connection of the stranger",
  );
  holdfast(`ca revoke node/node-b --reason demo ${as("ada")}`);
  await controller.line(
    ({ message, name }) => String(message).includes("was denied; its connection was ended") && name === "node/node-b",
    "the end of the connection of node-b",
  );
  say("\n  The controller has ended the connection of node-b, and takes no call with its certificate.");
};

/** Answers whether all went as it has to. */
export const walkTrust = async (say: Say): Promise<boolean> => {
  const dir = await mkdtemp(path.join(tmpdir(), "hf-"));
  const processes: ManagedProcess[] = [];
  try {
    await enrolment(dir, say, (one) => void processes.push(one));
    say("\nDone. docs/security.md says what each of these promises.");
    return true;
  } catch (error) {
    say(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}`);
    for (const one of processes) say(`\nWhat ${one.name} said:\n${one.output()}`);
    return false;
  } finally {
    for (const one of processes.reverse()) if (one.running()) await one.kill("SIGTERM");
    await rm(dir, { recursive: true, force: true, maxRetries: 3 });
  }
};
