import { execFileSync } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";

/** A host of its own for one process: a network namespace, joined to ours by a cable that can be pulled. */
export interface NetNamespace {
  readonly name: string;
  /** Our address on the cable: from inside everything of ours is reached there. */
  readonly outsideHost: string;
  /** Packets are lost from now on; nobody is told (no reset, no unreachable). */
  cut(): void;
  mend(): void;
  remove(): void;
}

const ip = (...args: readonly string[]): void => {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
};

const nobody = "02:00:00:00:00:01";

/** Addresses are of 198.18.0.0/15, which is set aside for such tests and routed nowhere. */
export const createNetNamespace = (): NetNamespace => {
  const id = randomBytes(3).toString("hex");
  const name = `hf-${id}`;
  const outer = `hf${id}o`;
  const subnet = `198.18.${randomInt(256)}`;
  const base = randomInt(60) * 4;
  const outsideHost = `${subnet}.${base + 1}`;
  const insideHost = `${subnet}.${base + 2}`;
  ip("netns", "add", name);
  ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name);
  ip("address", "add", `${outsideHost}/30`, "dev", outer);
  ip("link", "set", outer, "up");
  ip("-n", name, "address", "add", `${insideHost}/30`, "dev", "eth0");
  ip("-n", name, "link", "set", "lo", "up");
  ip("-n", name, "link", "set", "eth0", "up");
  return {
    name,
    outsideHost,
    // By a neighbour that does not exist: taking the link down would tell the senders at once.
    cut: () => {
      ip("neighbour", "replace", insideHost, "lladdr", nobody, "nud", "permanent", "dev", outer);
      ip("-n", name, "neighbour", "replace", outsideHost, "lladdr", nobody, "nud", "permanent", "dev", "eth0");
    },
    mend: () => {
      ip("neighbour", "delete", insideHost, "dev", outer);
      ip("-n", name, "neighbour", "delete", outsideHost, "dev", "eth0");
    },
    remove: () => {
      ip("netns", "delete", name);
    },
  };
};
