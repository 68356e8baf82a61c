/**
 * Each service without a file descriptor left, as connections use them up: it lives, says so, goes on by itself once there are some, and
 * keeps none that it had not before.
 */
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { connect, type NetConnectOpts, type Socket } from "node:net";
import type { Claim } from "@holdfast/shared/gen/holdfast/v1/claim";
import { expect, it, onTestFinished } from "vitest";
import { startCluster } from "../harness/cluster.ts";
import type { ManagedProcess } from "../harness/managed-process.ts";
import {
  claimVolume,
  expectClean,
  makeVolume,
  persistently,
  releaseWorkload,
  removeVolume,
  stateName,
} from "../harness/scenario.ts";
import { until } from "../harness/until.ts";
import { full } from "../support/full.ts";

const root = process.getuid?.() === 0;
if (full && !root) console.warn("SKIPPED: the limits of another process are set by root");

const descriptors = ({ pid }: ManagedProcess): number => readdirSync(`/proc/${pid}/fd`).length;

/** The limit that a process is held to; the one that it may go back to stays. */
const limit = ({ pid }: ManagedProcess, most: number): void => {
  execFileSync("prlimit", ["--pid", String(pid), `--nofile=${most}:`]);
};

/** Connections that say nothing, to every address in turn. */
const useUp = (addresses: readonly NetConnectOpts[], count: number): (() => void) => {
  const sockets: Socket[] = [];
  for (let n = 0; n < count; n += 1) {
    const to = addresses[n % addresses.length];
    if (to === undefined) break;
    const socket = connect(to);
    socket.on("error", () => undefined);
    sockets.push(socket);
  }
  return () => {
    for (const socket of sockets) socket.destroy();
  };
};

const tcp = (address: unknown): NetConnectOpts => ({
  host: "127.0.0.1",
  port: Number(String(address).split(":").pop()),
});
const adminOf = async (service: ManagedProcess): Promise<NetConnectOpts> =>
  tcp((await service.line(({ message }) => message === "admin listening", "its admin address"))["address"]);

it.runIf(full && root)("controller and agent without descriptors", async () => {
  const cluster = await startCluster({ nodes: ["node-a"], realMounts: true });
  onTestFinished(() => cluster.stop());
  const node = cluster.node("node-a");
  const [controller, agent] = [cluster.controller(), node.agent()];
  for (const id of ["before", "meanwhile"]) await makeVolume(cluster, id);
  expect(stateName(await claimVolume(cluster, "before"))).toBe("ACTIVE");
  const services = [
    { service: controller, addresses: [tcp(cluster.address), tcp(cluster.agentAddress), await adminOf(controller)] },
    { service: agent, addresses: [{ path: node.localAddress.slice("unix://".length) }, await adminOf(agent)] },
  ];
  const done = (wanted: string, call: () => Promise<readonly Claim[]>): Promise<unknown> =>
    persistently(wanted, async () => {
      const states = (await call()).map(stateName);
      if (states.some((state) => state !== wanted)) throw new Error(states.join());
    });
  for (const { service, addresses } of services) {
    const had = descriptors(service);
    limit(service, had + 2);
    const free = useUp(addresses, 60);
    await service.line(({ message }) => String(message).startsWith("no file descriptor is left"), "that none is left");
    // What is asked meanwhile is done or refused, and goes on afterwards; how it ends is of no account here.
    const asked = [
      claimVolume(cluster, "meanwhile", { workload: "w-meanwhile" }),
      releaseWorkload(cluster, "w-before"),
    ].map((one: Promise<unknown>) => one.catch(() => undefined));
    // Every period of what the services do on a clock, but the longest.
    await new Promise((resolve) => setTimeout(resolve, 25_000));
    expect(service.running(), service.output()).toBe(true);
    free();
    limit(service, 1024);
    await Promise.all(asked);
    await service.line(
      ({ message }) => String(message).startsWith("there are file descriptors again"),
      "that it has some",
    );
    await done("ACTIVE", async () => [await claimVolume(cluster, "meanwhile", { workload: "w-meanwhile" })]);
    for (const id of ["meanwhile", "before"]) await done("RELEASED", () => releaseWorkload(cluster, `w-${id}`));
    await done("ACTIVE", async () => [await claimVolume(cluster, "before")]);
    await until(
      () => `${service.name} to have the ${had} descriptors of before again, not ${descriptors(service)}`,
      () => descriptors(service) <= had,
      60_000,
    );
    const said = service
      .output()
      .split("\n")
      .filter((line) => line.includes("the plugin directory cannot be read"));
    expect(said.length, "said once for each reason").toBeLessThan(5);
  }
  await done("RELEASED", () => releaseWorkload(cluster, "w-before"));
  for (const id of ["before", "meanwhile"]) await removeVolume(cluster, id);
  await expectClean(cluster);
});
