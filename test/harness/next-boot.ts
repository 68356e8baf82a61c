/** The agent of the next boot of a node's host: it runs in the test's own process, which tells it another boot id. */
import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { type App, createApp } from "@holdfast/node-agent/app";
import { configSchema } from "@holdfast/node-agent/config";
import { machineIdFile } from "@holdfast/node-agent/testing/machine-id-file";
import { loadConfig } from "@holdfast/shared/config/config";
import { createMemoryLogger, type MemoryLogger } from "@holdfast/shared/log/logger";
import type { ClusterNode } from "./cluster.ts";

export interface NextBootOptions {
  /** Addresses of controllers, with commas. */
  readonly controllers: string;
  /** An image brings no state directory, and another machine id. */
  readonly imaged?: boolean;
  /** HOLDFAST_HOST_IDENTITY. */
  readonly identity?: string;
}

export interface NextBoot extends App {
  readonly bootId: string;
  readonly log: MemoryLogger;
}

/** Not started yet. */
export const nextBoot = async (
  node: ClusterNode,
  { controllers, imaged = false, identity = "none" }: NextBootOptions,
): Promise<NextBoot> => {
  const otherMachine = `${machineIdFile()}-${randomBytes(4).toString("hex")}`;
  if (imaged) {
    await rm(node.stateDir, { recursive: true });
    await writeFile(otherMachine, `${randomBytes(16).toString("hex")}\n`);
  }
  const log = createMemoryLogger();
  const bootId = `boot-${randomBytes(4).toString("hex")}`;
  const app = createApp(
    loadConfig(configSchema, {
      HOLDFAST_NODE: node.name,
      HOLDFAST_ADMIN_LISTEN: "127.0.0.1:0",
      HOLDFAST_CONTROLLERS: controllers,
      HOLDFAST_STATE_DIR: node.stateDir,
      HOLDFAST_MACHINE_ID_FILE: imaged ? otherMachine : machineIdFile(),
      HOLDFAST_HOST_IDENTITY: identity,
      HOLDFAST_ROOT_DIR: node.rootDir,
      HOLDFAST_PLUGIN_DIR: path.dirname(node.plugin().socketPath),
    }),
    { log, bootId },
  );
  return {
    ...app,
    bootId,
    log,
    async stop() {
      await app.stop();
      await rm(otherMachine, { force: true });
    },
  };
};
