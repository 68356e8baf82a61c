/** A controller with an authority of its own, on real TLS sockets, as an operator with a certificate sees it. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { createApp } from "@holdfast/controller/app";
import { configSchema } from "@holdfast/controller/config";
import { loadConfig } from "@holdfast/shared/config/config";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { expect } from "vitest";
import { cliRun } from "../cli/cli-run.ts";

/** What a command answers to a program. */
export const told = async (args: readonly string[], address?: string) => {
  const end = await cliRun([...args, "--json"], address === undefined ? {} : { address });
  expect(end.code, end.err).toBe(0);
  return JSON.parse(end.out) as Record<string, string>;
};

/** `paths`: settings with places below the directory; `settings`: any others. */
export const trustedController = async (
  dir: string,
  paths: Readonly<Record<string, string>> = {},
  settings: Readonly<Record<string, string>> = {},
) => {
  const at = (name: string): string => path.join(dir, name);
  await told(["ca", "init", "--trust-domain", "td.test", "--dir", at("ca")]);
  const issue = async (name: string, out: string) => {
    const { serial } = await told(["ca", "issue", name, "--dir", at("ca"), "--out", at(out)]);
    return { serial: serial ?? "", directory: at(out) };
  };
  await issue("controller/c-1", "controller");
  const ada = await issue("operator/ada", "ada");
  mkdirSync(at("plugins"), { mode: 0o700 });
  const log = createMemoryLogger();
  const app = createApp(
    loadConfig(configSchema, {
      HOLDFAST_LISTEN: "127.0.0.1:0",
      HOLDFAST_AGENT_LISTEN: "127.0.0.1:0",
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_STATE_DIR: at("state"),
      HOLDFAST_PLUGIN_DIR: at("plugins"),
      HOLDFAST_TLS_DIR: at("controller"),
      HOLDFAST_CA_DIR: at("ca/issuing"),
      ...settings,
      ...Object.fromEntries(Object.entries(paths).map(([name, place]) => [name, at(place)])),
    }),
    { log },
  );
  await app.start();
  const asAda = (args: readonly string[]) => told([...args, "--certs", ada.directory], app.address());
  const enrolArgs = async (node: string, out: string) => {
    const { token = "", pin = "", agent_address: agentAddress = "" } = await asAda(["node", "token", node]);
    return {
      token,
      pin,
      args: ["agent", "enrol", "--controller", agentAddress, "--pin", pin, "--token", token, "--out", at(out)],
    };
  };
  return { at, app, log, issue, asAda, enrolArgs };
};
