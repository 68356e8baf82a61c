/** Jaeger and Prometheus of the profile `observability`, asked on the ports that they have on the host of the containers. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { createJaegerApi, type Get } from "../support/jaeger-api.ts";
import { root } from "../support/run-go.ts";
import type { Engine } from "./engine.ts";

interface RuleGroups {
  readonly groups: readonly { readonly rules: readonly { readonly name: string; readonly health: string }[] }[];
}

export const createObservers = ({ onHost }: Engine) => {
  const get: Get = async (url) => {
    const answer = await onHost(`curl --silent --show-error --write-out '\\n%{http_code}' '${url}'`);
    const end = answer.lastIndexOf("\n");
    return { status: Number(answer.slice(end + 1)), body: answer.slice(0, end) };
  };
  const prometheus = async <T>(what: string): Promise<T> => {
    const { status, body } = await get(`http://127.0.0.1:9090/api/v1/${what}`);
    if (status !== 200) throw new Error(`Prometheus answers ${status} to ${what}: ${body}`);
    return (JSON.parse(body) as { readonly data: T }).data;
  };
  return {
    jaeger: createJaegerApi("http://127.0.0.1:16686", get),
    /** `instance health`, also of those that it has not asked yet. */
    targets: async (): Promise<readonly string[]> => {
      const { activeTargets } = await prometheus<{
        readonly activeTargets: readonly { readonly labels: { readonly instance: string }; readonly health: string }[];
      }>("targets");
      return activeTargets.map(({ labels, health }) => `${labels.instance} ${health}`).sort();
    },
    rules: async () => (await prometheus<RuleGroups>("rules")).groups.flatMap(({ rules }) => rules),
    /** How many series each query of the dashboards finds. */
    dashboards: async (): Promise<ReadonlyMap<string, number>> => {
      const file = await readFile(path.join(root, "deploy/grafana/dashboards/holdfast.json"), "utf8");
      const { panels } = JSON.parse(file) as {
        readonly panels: readonly { readonly targets: readonly { readonly expr: string }[] }[];
      };
      const found = new Map<string, number>();
      for (const { expr } of panels.flatMap(({ targets }) => targets)) {
        const { result } = await prometheus<{ readonly result: readonly object[] }>(
          `query?${new URLSearchParams({ query: expr }).toString().replaceAll("'", "%27")}`,
        );
        found.set(expr, result.length);
      }
      return found;
    },
  };
};
