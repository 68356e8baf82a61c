/** Namespaces are walls: what a scheduler asks shows nothing of others, and costs nothing that depends on them. */
import type { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { ClaimServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/claim";
import { WatchKind } from "@holdfast/shared/gen/holdfast/v1/common";
import { PlacementServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/placement";
import { VolumeServiceDefinition } from "@holdfast/shared/gen/holdfast/v1/volume";
import type { Identity } from "@holdfast/shared/grpc/identity";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { methodsOf } from "../../../../../test/access/methods.ts";
import { type ServedApi, serveApi } from "../../../../../test/support/controller/served-api.ts";
import { createWorld, plugin, type World } from "../../../../../test/support/controller/world.ts";
import { noGrants, wireAccess } from "../../access-wiring.ts";
import type { AccessGrantRecord } from "../../domain/access/access-grant.ts";
import type { Store } from "../../ports.ts";
import { createSqliteStore } from "../../store/sqlite/sqlite-store.ts";

const operator: Identity = { role: "operator", name: "ada" };
const schedulerOf = (name: string): Identity => ({ role: "scheduler", name });
const grant = (scheduler: string, namespaces: readonly string[]): AccessGrantRecord => ({
  ...{ scheduler, namespaces, plugins: [plugin], secretRoots: [] },
  ...{ createdAt: 1, updatedAt: 1, changedBy: { who: "operator/ada", why: "" } },
});
const grants = new Map([grant("shop", ["shop", "web"]), grant("bank", ["bank"])].map((one) => [one.scheduler, one]));

let world: World;
let api: ServedApi;
/** Every question that the store was asked. */
let questions: string[];
let own: ReturnType<ServedApi["as"]>;
let all: ReturnType<ServedApi["as"]>;

const counting = (inner: Store): Store => {
  const asked =
    <Args extends readonly unknown[], Answer>(what: string, ask: (...args: Args) => Answer) =>
    (...args: Args): Answer => {
      questions.push(what);
      return ask(...args);
    };
  return {
    ...inner,
    get: asked("get", inner.get),
    getMany: asked("getMany", inner.getMany),
    list: asked("list", inner.list),
    count: asked("count", inner.count),
  };
};

const make = async (namespace: string, id: string): Promise<void> => {
  await all.volumes.createVolume({
    ...{ namespace, id, plugin, capacity: { requiredBytes: 1n << 24n } },
    capabilities: [{ attachmentMode: 1, accessMode: 1 }],
  });
  await world.idle();
};
const claim = async (namespace: string, id: string): Promise<void> => {
  await all.claims.createClaims({ namespace, workload: `w-${id}`, node: "n1", claims: [{ volume: id }] });
  await world.idle();
};
const failure = async (call: Promise<unknown>): Promise<HoldfastError> =>
  await call.then(
    () => {
      throw new Error("it was not refused");
    },
    (error: HoldfastError) => error,
  );

beforeEach(async () => {
  questions = [];
  const clock = { now: () => 1_700_000_000_000 };
  world = await createWorld({
    store: counting(createSqliteStore({ file: ":memory:", now: clock.now, uuid: () => crypto.randomUUID() })),
  });
  const held = { ...noGrants, of: (scheduler: string) => grants.get(scheduler), any: () => true };
  api = await serveApi(world, { access: wireAccess("loopback", held) });
  own = api.as(schedulerOf("shop"));
  all = api.as(operator);
  for (const [namespace, id] of [
    ["bank", "vault"],
    ["shop", "cart"],
    ["shop", "stock"],
    ["toys", "bear"],
    ["web", "pages"],
  ] as const) {
    await make(namespace, id);
    await claim(namespace, id);
  }
});
afterEach(async () => {
  await api.close();
  await world.close();
});

describe("a namespace without a grant", () => {
  test("costs no read of the store and is told in the same words, whether or not it exists", async () => {
    const methods = methodsOf([VolumeServiceDefinition, ClaimServiceDefinition, PlacementServiceDefinition]).filter(
      ({ key }) => !["getListToken", "listExternalVolumes", "getCapacity"].includes(key),
    );
    expect(methods.length).toBeGreaterThan(18);
    const clients = { VolumeService: own.volumes, ClaimService: own.claims, PlacementService: own.placement };
    await world.idle();
    questions = [];
    for (const { definition, key, responseStream, request, rpc } of methods) {
      const said = async (subject: "other" | "absent"): Promise<string> => {
        const client = clients[definition.name as keyof typeof clients] as unknown as Record<
          string,
          (request: object) => Promise<unknown> & AsyncIterable<unknown>
        >;
        const answer = client[key]?.(request(subject));
        const asked = responseStream ? answer?.[Symbol.asyncIterator]().next() : answer;
        const { reason, message, metadata } = await failure(Promise.resolve(asked));
        return `${reason} ${message} ${JSON.stringify(metadata)}`.replaceAll(
          subject === "other" ? "bank" : "void",
          "*",
        );
      };
      const words = await said("other");
      expect(words, rpc).toMatch(/^PERMISSION_DENIED /);
      expect(await said("absent"), rpc).toBe(words);
    }
    expect(questions).toEqual([]);
  });
});

describe("a list without a namespace", () => {
  const inOnePlace = async <T>(
    page: (pageToken: string) => Promise<{ items: readonly T[]; nextPageToken: string }>,
  ) => {
    const items: T[] = [];
    const tokens: string[] = [];
    for (let token = ""; ; ) {
      const { items: some, nextPageToken } = await page(token);
      items.push(...some);
      if (nextPageToken === "") return { items, tokens };
      tokens.push(nextPageToken);
      token = nextPageToken;
    }
  };
  const readable = (tokens: readonly string[]): string =>
    tokens.map((token) => Buffer.from(token, "base64url").toString("utf8")).join(" ");

  test.each([
    ["all", {}],
    ["those on a node", { node: "n1" }],
    ["those of a plugin", { plugin }],
  ])("has of %s what is in the scheduler's own namespaces, page by page", async (_what, filter) => {
    const volumes = await inOnePlace(async (pageToken) => {
      const { volumes: items, nextPageToken } = await own.volumes.listVolumes({ filter, pageSize: 1, pageToken });
      return { items, nextPageToken };
    });
    expect(volumes.items.map(({ namespace, id }) => `${namespace}/${id}`)).toEqual([
      "shop/cart",
      "shop/stock",
      "web/pages",
    ]);
    const claims = await inOnePlace(async (pageToken) => {
      const { claims: items, nextPageToken } = await own.claims.listClaims({ filter, pageSize: 1, pageToken });
      return { items, nextPageToken };
    });
    expect(claims.items.map(({ namespace, volume }) => `${namespace}/${volume}`)).toEqual([
      "shop/cart",
      "shop/stock",
      "web/pages",
    ]);
    expect(readable([...volumes.tokens, ...claims.tokens])).not.toMatch(/bank|vault|toys|bear/);
  });

  test("has for an operator everything", async () => {
    const { volumes } = await all.volumes.listVolumes({});
    expect(volumes.map(({ namespace }) => namespace)).toEqual(["bank", "shop", "shop", "toys", "web"]);
  });

  test("goes on for nobody else by its token, nor for itself once its grant is another one", async () => {
    const { nextPageToken: pageToken } = await own.volumes.listVolumes({ pageSize: 1 });
    const refusal = { violations: [{ field: "page_token" }] };
    const bank = api.as(schedulerOf("bank"));
    expect(await failure(bank.volumes.listVolumes({ pageSize: 1, pageToken }))).toMatchObject(refusal);
    expect(await failure(all.volumes.listVolumes({ pageSize: 1, pageToken }))).toMatchObject(refusal);
    grants.set("shop", grant("shop", ["shop"]));
    try {
      expect(await failure(own.volumes.listVolumes({ pageSize: 1, pageToken }))).toMatchObject(refusal);
    } finally {
      grants.set("shop", grant("shop", ["shop", "web"]));
    }
  });

  test("of a node's figures has the own volumes alone", async () => {
    const { volumes } = await own.nodes.getNodeStats({ name: "n1" });
    expect(volumes.map(({ namespace, volume }) => `${namespace}/${volume}`)).toEqual([
      "shop/cart",
      "shop/stock",
      "web/pages",
    ]);
  });
});

describe("a watch without a namespace", () => {
  test("tells of the own namespaces alone, also what is removed and what happened", async () => {
    const end = new AbortController();
    const options = { signal: end.signal };
    const volumes = own.volumes.watchVolumes({}, options)[Symbol.asyncIterator]();
    const claims = own.claims.watchClaims({}, options)[Symbol.asyncIterator]();
    const events = own.events.watchEvents({}, options)[Symbol.asyncIterator]();
    const until = async <T extends { kind: WatchKind }>(stream: AsyncIterator<T>, last: WatchKind) => {
      const seen: T[] = [];
      for (;;) {
        const { value, done } = await stream.next();
        if (done) throw new Error("the watch ended");
        seen.push(value);
        if (value.kind === last) return seen;
      }
    };
    await events.next();
    const existing = await until(volumes, WatchKind.WATCH_KIND_SYNCED);
    expect(existing.flatMap(({ volume }) => volume?.namespace ?? [])).toEqual(["shop", "shop", "web"]);
    await until(claims, WatchKind.WATCH_KIND_SYNCED);

    for (const [namespace, id] of [
      ["bank", "vault"],
      ["toys", "bear"],
      ["web", "pages"],
    ] as const) {
      await all.claims.releaseClaims({ namespace, workload: `w-${id}` });
      await world.idle();
      await all.volumes.deleteVolume({ namespace, id });
      await world.idle();
    }
    const gone = await until(volumes, WatchKind.WATCH_KIND_REMOVED);
    expect(new Set(gone.flatMap(({ volume }) => volume?.namespace ?? []))).toEqual(new Set(["web"]));
    const released = await until(claims, WatchKind.WATCH_KIND_REMOVED);
    expect(new Set(released.flatMap(({ claim: one }) => one?.namespace ?? []))).toEqual(new Set(["web"]));
    const told: string[] = [];
    while (!told.includes("VOLUME_DELETED") && told.length < 50) {
      const { value } = await events.next();
      if (value?.event === undefined) continue;
      expect(value.event.subject?.namespace).toBe("web");
      told.push(value.event.reason);
      if (value.event.subject?.volume === "pages" && value.event.reason.startsWith("VOLUME_DEL")) break;
    }
    end.abort();
  });
});

test("of a plugin a scheduler is told neither how many volumes it has nor how its calls go", async () => {
  expect((await all.plugins.getPlugin({ name: plugin })).plugin).toMatchObject({ volumeCount: 5n, calls: {} });
  const seen = (await own.plugins.getPlugin({ name: plugin })).plugin;
  expect(seen).toMatchObject({ name: plugin, volumeCount: 0n });
  expect(seen?.calls).toBeUndefined();
});

test("plugins without a grant are in no list", async () => {
  expect((await own.plugins.listPlugins({})).plugins.map(({ name }) => name)).toEqual([plugin]);
  grants.set("shop", { ...grant("shop", ["shop", "web"]), plugins: ["another.example.com"] });
  try {
    expect((await own.plugins.listPlugins({})).plugins).toEqual([]);
  } finally {
    grants.set("shop", grant("shop", ["shop", "web"]));
  }
});

test("a watch tells nothing more once the grant is gone, and ends", async () => {
  const [watch] = [own.volumes.watchVolumes({})[Symbol.asyncIterator]()];
  while ((await watch.next()).value?.kind !== WatchKind.WATCH_KIND_SYNCED);
  grants.delete("shop");
  try {
    await all.claims.releaseClaims({ namespace: "shop", workload: "w-cart" });
    expect(await failure(watch.next())).toMatchObject({ reason: "PERMISSION_DENIED" });
  } finally {
    grants.set("shop", grant("shop", ["shop", "web"]));
  }
});

describe("storage of another namespace", () => {
  const register = async (externalId: string): Promise<HoldfastError> =>
    await failure(
      own.volumes.registerVolume({
        ...{ namespace: "shop", id: "mine", plugin, externalId },
        capabilities: [{ attachmentMode: 1, accessMode: 1 }],
      }),
    );

  test("cannot be registered, and the refusal names neither its namespace nor its volume", async () => {
    const { volume } = await all.volumes.getVolume({ namespace: "bank", id: "vault" });
    const refusal = await register(volume?.externalId ?? "");
    expect(refusal).toMatchObject({ kind: "not_found", reason: "VOLUME_NOT_FOUND" });
    expect(JSON.stringify([refusal.message, refusal.metadata])).not.toMatch(/bank|vault/);
  });

  test("of an own namespace is named", async () => {
    const { volume } = await all.volumes.getVolume({ namespace: "web", id: "pages" });
    expect(await register(volume?.externalId ?? "")).toMatchObject({
      reason: "VOLUME_EXISTS",
      message: expect.stringContaining("web/pages"),
    });
  });
});

describe("workloads that a scheduler no longer knows", () => {
  test("are those of its own namespaces where it names none", async () => {
    const { listToken } = await own.claims.getListToken({});
    const live = [{ namespace: "shop", workload: "w-cart" }];
    const found = await own.claims.reconcileWorkloads({ listToken, node: "n1", live, reason: "a restart" });
    expect(found.released.map(({ namespace, volume }) => `${namespace}/${volume}`)).toEqual([
      "shop/stock",
      "web/pages",
    ]);
    expect(found).toMatchObject({ releasedCount: 2n, liveCount: 1n });
    await world.idle();
    const { claims } = await all.claims.listClaims({ filter: { node: "n1" } });
    expect(claims.map(({ namespace, volume }) => `${namespace}/${volume}`)).toEqual([
      "bank/vault",
      "shop/cart",
      "toys/bear",
    ]);
  });

  test("may not be named of another namespace", async () => {
    const { listToken } = await own.claims.getListToken({});
    const live = [{ namespace: "bank", workload: "w-vault" }];
    expect(await failure(own.claims.reconcileWorkloads({ listToken, node: "n1", live }))).toMatchObject({
      reason: "PERMISSION_DENIED",
    });
  });
});

describe("the audit", () => {
  test("shows the own namespaces alone, and of another one a record that is not there", async () => {
    const entry = (namespace: string) => ({
      ...{ verb: "ClearBar", who: "operator/ada", reason: "r", evidence: "e", confirmed: "", effects: [], risks: [] },
      ...{ requestId: "", traceId: "", subject: { namespace } },
    });
    for (const namespace of ["bank", "shop"]) await world.audit.write(`a-${namespace}`, entry(namespace), 1);
    const { records } = await own.repair.listAudit({});
    expect(records.map(({ id }) => id)).toEqual(["a-shop"]);
    const foreign = await failure(own.repair.listAudit({ auditId: "a-bank" }));
    const absent = await failure(own.repair.listAudit({ auditId: "a-void" }));
    expect(foreign.message.replace("a-bank", "*")).toBe(absent.message.replace("a-void", "*"));
    expect((await own.repair.listAudit({ auditId: "a-shop" })).records).toHaveLength(1);
  });
});
