/** Requests of programs on a host, through the edge of the agent: refused whole, or handed on as they were asked. */
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { addLocalServices } from "../../services/node-agent/src/api/local-services.ts";
import { fuzzTests } from "./fuzz-tests.ts";
import { localSamples } from "./local-corpus.ts";
import { type Edge, edge, idPattern, type RequestInput, requestTarget, shortened } from "./request-target.ts";

type Options = Parameters<typeof addLocalServices>[1];

/** The services with nothing but their edges; `taken` is called with each order that they hand on. */
const optionsOf = (taken: () => void): Options => {
  const take =
    <T>(answer: T) =>
    async (): Promise<T> => {
      taken();
      return answer;
    };
  const view = { namespace: "default", workload: "w1", ready: true, mounts: [], claims: [] };
  const nothing = async function* () {};
  const feed = { position: () => 1, check: () => undefined, after: nothing };
  const options = {
    workloads: {
      node: "n1",
      workloads: { prepare: take(view), release: take([]), get: async () => view },
      stats: { of: async () => [] },
      feed: { watch: nothing },
      stateOf: () => ({}),
    },
    pluginHost: {
      node: "n1",
      host: {
        prepare: take("/run/csi.sock"),
        find: () => ({}),
        supervise: nothing,
        stop: take({ stopped: true, calls: [] }),
        connectionOf: () => undefined,
      },
      board: { list: () => [], feed },
      admission: { accept: take([]) },
      ...{ rootDir: "/hf", log: createMemoryLogger(), run: "run-1" },
    },
  };
  return options as unknown as Options;
};

const fits = (pattern: RegExp, good: unknown) => (value: unknown) => (pattern.test(String(value)) ? value : good);

fuzzTests<Edge, RequestInput>({
  name: "the edge of the agent for programs on its host",
  full: 100_000,
  quick: 2_000,
  findWithin: 4_000,
  subject: edge,
  target: (change) =>
    requestTarget(
      {
        samples: localSamples,
        callerOf: () => ({ role: "local", name: "" }),
        // A controller makes the volume, and refuses what it cannot.
        handedOn: ["template"],
        async serve(server) {
          let taken = 0;
          const options = optionsOf(() => {
            taken += 1;
          });
          addLocalServices({ ...server, setServing: () => undefined }, options);
          return { settle: async () => undefined, writes: () => taken, close: async () => undefined };
        },
      },
      change,
    ),
  planted: [
    ["takes a namespace with a path in it", (request) => shortened(request, "namespace", fits(idPattern, "default"))],
    [
      "takes a directory with dots in it",
      (request) => shortened(request, "publishDir", fits(/^((?!\.\.).)*$/, "/local/csi")),
    ],
    ["takes a directory that begins nowhere", (request) => shortened(request, "socketDir", fits(/^(\/|$)/, "/csi"))],
    [
      "takes an alias for another one that fits",
      (request) =>
        shortened(request, "volumes", (volumes) =>
          (volumes as { readonly claim?: { readonly alias: string } }[]).map(({ claim, ...rest }) => ({
            ...rest,
            claim: claim && shortened({ ...claim }, "alias", fits(/^$|^[a-z0-9]+$/, "fits")),
          })),
        ),
    ],
    [
      "falls over a request without volumes",
      (request) => {
        if (Array.isArray(request["volumes"]) && request["volumes"].length === 0)
          throw new TypeError("volumes[0] is undefined");
        return request;
      },
    ],
  ],
});
