/** The schedulers in examples/python and examples/go, built as they say, against live services: without certificates and with. */
import { access, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createChannelCredentials } from "@holdfast/shared/grpc/tls-credentials";
import { createMemoryLogger } from "@holdfast/shared/log/logger";
import { checkAuthority, createIssuing, createRoot, issueLeaf, leafTtlMs } from "@holdfast/shared/trust/authority";
import { createCertificateKeeper } from "@holdfast/shared/trust/certificate-keeper";
import { writeCredentials } from "@holdfast/shared/trust/credential-dir";
import { generateKey } from "@holdfast/shared/trust/make-certificate";
import { parseCertifiedName } from "@holdfast/shared/trust/spiffe-id";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mutatingCalls } from "../harness/calls.ts";
import { type Cluster, startCluster } from "../harness/cluster.ts";
import { startProcess } from "../harness/managed-process.ts";
import { expectClean, plugin } from "../harness/scenario.ts";
import { full } from "../support/full.ts";
import { buildGoProgram, root, runToEnd } from "../support/run-go.ts";

const isRoot = process.getuid?.() === 0;
if (full && !isRoot) console.warn("SKIPPED: schedulers in other languages write into real mounts, which need root");

const minutes = 60_000;
const at = (file: string): string => path.join(root, file);

const must = async (command: string, args: readonly string[]): Promise<void> => {
  const { code, output } = await runToEnd(command, args, 10 * minutes);
  if (code !== 0) throw new Error(`${command} ${args.join(" ")}: ${output}`);
};

interface Built {
  readonly command: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
}

/** What its first lines say, in a directory of the checkout's. */
const buildPython = async (): Promise<Built> => {
  const home = at(".cache/python");
  const python = path.join(home, "bin/python");
  const gen = at("examples/python/gen");
  await access(python).catch(() => must("python3", ["-m", "venv", home]));
  await must(python, ["-m", "pip", "install", "--quiet", "-r", at("examples/python/requirements.txt")]);
  await mkdir(gen, { recursive: true });
  const out = ["-I", at("proto"), `--python_out=${gen}`, `--grpc_python_out=${gen}`];
  const protos = (await readdir(at("proto/holdfast/v1"))).map((name) => at(`proto/holdfast/v1/${name}`));
  await must(python, ["-m", "grpc_tools.protoc", ...out, ...protos]);
  return { command: [python, at("examples/python/scheduler.py")], env: { PYTHONPATH: gen } };
};

const buildGo = async (): Promise<Built> => {
  await must("go", ["generate", "-C", at("examples/go"), "./..."]);
  return { command: [await buildGoProgram("scheduler-in-go", at("examples/go"), ".", 10 * minutes)] };
};

const languages = { python: buildPython, go: buildGo } as const;

describe.runIf(full && isRoot)("a scheduler in", () => {
  const built = new Map<string, Built>();
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(path.join(tmpdir(), "hf-languages-"));
    for (const [language, build] of Object.entries(languages)) built.set(language, await build());
  }, 25 * minutes);
  afterAll(() => rm(dir, { recursive: true, force: true }));

  const says = async (language: string, cluster: Cluster, env: Readonly<Record<string, string>>): Promise<void> => {
    const { command, env: own } = built.get(language) ?? { command: ["false"] };
    const scheduler = startProcess({
      name: language,
      command: [...command, cluster.address, plugin],
      env: { ...own, ...env },
    });
    expect(await scheduler.exited(), scheduler.output()).toBe(0);
    const said = scheduler.output();
    expect(said).toMatch(/volume data is \S*AVAILABLE/);
    expect(said).toMatch(/job has data on node-[ab]/);
    expect(said).toContain("a volume in use is not deleted: VOLUME_IN_USE");
    expect(said).toContain("all is given back");
    expect(await mutatingCalls(cluster)).toEqual([
      "CreateVolume",
      ...["ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"],
      ...["NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"],
      "DeleteVolume",
    ]);
    await expectClean(cluster);
  };

  test.each(Object.keys(languages))("%s", async (language) => {
    const cluster = await startCluster({ nodes: ["node-a", "node-b"], realMounts: true });
    try {
      await says(language, cluster, {});
    } finally {
      await cluster.stop();
    }
  });

  test.each(Object.keys(languages))("%s, by certificates", async (language) => {
    const now = Date.now();
    const authority = await checkAuthority(await createIssuing(await createRoot("lang.test", now), leafTtlMs, now), {
      now,
    });
    const issued = async (text: string): Promise<string> => {
      const identity = parseCertifiedName(text);
      if (identity === undefined) throw new Error(`${text} is no name`);
      const key = generateKey();
      const chain = await issueLeaf(authority, { identity, key, ttlMs: leafTtlMs, now });
      const out = path.join(dir, language, text.replace("/", "-"));
      await mkdir(out, { recursive: true, mode: 0o700 });
      writeCredentials(out, { chain, key, roots: authority.roots });
      return out;
    };
    const wanted = { roles: ["operator"], name: "test" } as const;
    const keeper = createCertificateKeeper({
      ...{ path: await issued("operator/test"), setting: "the test's", wanted, log: createMemoryLogger() },
    });
    const cluster = await startCluster({
      nodes: ["node-a"],
      realMounts: true,
      operatorCredentials: createChannelCredentials(keeper),
      controllerEnv: { HOLDFAST_TLS_DIR: await issued("controller/c-1"), HOLDFAST_ID: "c-1" },
      agentEnv: { HOLDFAST_TLS_DIR: await issued("node/node-a") },
    });
    try {
      await cluster.grants.setGrant({ scheduler: language, namespaces: [language], plugins: [plugin], reason: "test" });
      const tls = { HOLDFAST_TLS_DIR: await issued(`scheduler/${language}`), HOLDFAST_CONTROLLER: "c-1" };
      await says(language, cluster, tls);
    } finally {
      await cluster.stop();
      keeper.stop();
    }
  });
});
