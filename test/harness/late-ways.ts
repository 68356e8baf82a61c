/** A way of its own from each controller to each agent that relays, on which what the controller sends can be held, or everything lost. */
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";
import type { Cluster } from "./cluster.ts";
import type { Which } from "./plugin-driver.ts";

export interface LateWay {
  readonly node: string;
  readonly controller: Which;
  hold(on: boolean): void;
  /** On, nothing passes, and nobody is told that the other is gone; off, its connections end, and new ones pass. */
  lose(on: boolean): void;
}

export interface LateWays {
  readonly all: readonly LateWay[];
  /** What the agent of the node has to be started with. */
  env(node: string): Readonly<Record<string, string>>;
  close(): Promise<unknown>;
}

export const openLateWays = async (
  cluster: Cluster,
  nodes: readonly string[],
  controllers: readonly Which[],
): Promise<LateWays> => {
  const ways: (LateWay & { readonly proxy: TcpProxy })[] = [];
  for (const node of nodes)
    for (const controller of controllers) {
      const { agentAddress } = controller === "first" ? cluster : cluster[controller];
      const proxy = await startTcpProxy({ port: Number(agentAddress.split(":").at(-1)) });
      const lose = (on: boolean): void => {
        if (!on) proxy.cut();
        proxy.blackHole(on);
      };
      ways.push({ node, controller, proxy, hold: proxy.holdAnswers, lose });
    }
  const env = (node: string): Readonly<Record<string, string>> => {
    const own = ways.filter((way) => way.node === node).map(({ proxy }) => `127.0.0.1:${proxy.port}`);
    return own.length === 0 ? {} : { HOLDFAST_CONTROLLERS: own.join() };
  };
  for (const node of nodes) {
    await cluster.node(node).agent().kill("SIGTERM");
    await cluster.node(node).startAgent(env(node));
  }
  return { all: ways, env, close: () => Promise.all(ways.map(({ proxy }) => proxy.close())) };
};
