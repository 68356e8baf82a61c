/**
 * docker-compose.yml, the Dockerfile and the units, against the code that they start: every setting, port, path and file. What only an
 * engine can prove (that the images build and run) is not proven here; docs/containers.md says so.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { configSchema as controllerSchema } from "@holdfast/controller/config";
import { startChecks } from "@holdfast/controller/store/redis/start-gate";
import { configSchema as driverSchema } from "@holdfast/local-driver/config";
import { configSchema as agentSchema } from "@holdfast/node-agent/config";
import { type ConfigSchema, loadConfig } from "@holdfast/shared/config/config";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";

const root = path.resolve(import.meta.dirname, "../..");
const read = (file: string): string => readFileSync(path.join(root, file), "utf8");

type Bind = { type: string; source: string; target: string; read_only?: boolean; bind?: { propagation?: string } };
interface Service {
  readonly build?: { readonly target: string };
  readonly image?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly (string | Bind)[];
  readonly ports?: readonly string[];
  readonly read_only?: boolean;
  readonly privileged?: boolean;
  readonly pid?: string;
  readonly user?: string;
  readonly cap_drop?: readonly string[];
  readonly command?: readonly string[];
  readonly profiles?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly networks?: readonly string[];
  readonly stop_grace_period?: string;
  readonly network_mode?: string;
}

const compose = parse(read("docker-compose.yml"), { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
};
const services = Object.entries(compose.services);
const schemas: Readonly<Record<string, ConfigSchema>> = {
  controller: controllerSchema,
  "node-agent": agentSchema,
  "local-driver": driverSchema,
};
const ofTarget = (target: string) => services.filter(([, service]) => service.build?.target === target);
const talking = [...ofTarget("controller"), ...ofTarget("node-agent")];
const ours = services.filter(([, { build }]) => build !== undefined && schemas[build.target] !== undefined);

/** Where a path inside a container really is: the volume or the directory of the host behind it. */
const behind = (
  { volumes = [] }: Service,
  inside: string,
): { readonly source: string; readonly propagation: string } => {
  const mounts = volumes.map((volume) => {
    if (typeof volume !== "string") return { ...volume, propagation: volume.bind?.propagation ?? "" };
    const [source = "", target = "", mode = ""] = volume.split(":");
    return { source, target, propagation: mode === "ro" ? "" : mode };
  });
  const found = mounts
    .filter(({ target }) => inside === target || inside.startsWith(`${target}/`))
    .sort((a, b) => b.target.length - a.target.length)[0];
  if (found === undefined) throw new Error(`${inside} is in no volume: it is lost with the container`);
  return { source: found.source + inside.slice(found.target.length), propagation: found.propagation };
};

const port = (address: string): string => address.slice(address.lastIndexOf(":") + 1);
const settings = (service: Service) => service.environment ?? {};

describe("docker-compose.yml", () => {
  test.each(ours)("%s: every setting is known and valid", (_, service) => {
    const schema = schemas[service.build?.target ?? ""] ?? {};
    const known = Object.values(schema).map(({ env }) => env);
    expect(
      Object.keys(settings(service)).filter((name) => name.startsWith("HOLDFAST_") && !known.includes(name)),
    ).toEqual([]);
    expect(() => loadConfig(schema, settings(service))).not.toThrow();
  });

  test.each(ours)("%s: what it writes is in a volume, its root is read-only", (_, service) => {
    expect(service.read_only).toBe(true);
    for (const [name, value] of Object.entries(settings(service)))
      if (/_DIR$/.test(name)) expect(behind(service, value).source, name).not.toBe("");
  });

  test("agents and drivers see the host's paths as they are, and mounts go both ways", () => {
    for (const [name, service] of [...ofTarget("node-agent"), ...ofTarget("local-driver")]) {
      const env = settings(service);
      for (const setting of ["HOLDFAST_ROOT_DIR", "HOLDFAST_STATE_DIR", "HOLDFAST_LOCAL_STATE_DIR"]) {
        const inside = env[setting];
        if (inside !== undefined)
          expect(behind(service, inside), name).toEqual({ source: inside, propagation: "rshared" });
      }
      expect([service.privileged, service.pid], name).toEqual([true, "host"]);
    }
  });

  test("each agent has the machine id of the host, read-only", () => {
    const schema = agentSchema.machineIdFile;
    for (const [name, service] of ofTarget("node-agent")) {
      const file = settings(service)[schema.env] ?? schema.default;
      const own = (service.volumes ?? []).filter((v): v is Bind => typeof v !== "string" && v.target === file);
      expect(own, name).toEqual([{ type: "bind", source: "/etc/machine-id", target: file, read_only: true }]);
    }
  });

  test("no two services share a state directory", () => {
    const dirs = ours.flatMap(([, service]) =>
      ["HOLDFAST_STATE_DIR", "HOLDFAST_ROOT_DIR", "HOLDFAST_LOCAL_STATE_DIR", "HOLDFAST_HOSTED_PLUGIN_DIR"].flatMap(
        (name) => {
          const value = settings(service)[name];
          return value === undefined ? [] : [behind(service, value).source];
        },
      ),
    );
    expect(new Set(dirs).size).toBe(dirs.length);
  });

  test("the controller has no right of root's left but its name", () => {
    for (const [, service] of ofTarget("controller"))
      expect([service.user, service.cap_drop, service.privileged]).toEqual(["0:0", ["ALL"], undefined]);
  });

  test("each driver's sockets are where its agent and the controller look", () => {
    const looked = [...ofTarget("controller"), ...ofTarget("node-agent")].map(
      ([, service]) => behind(service, settings(service)["HOLDFAST_PLUGIN_DIR"] ?? "").source,
    );
    const served = ofTarget("local-driver").flatMap(([, service]) =>
      (settings(service)["HOLDFAST_LOCAL_SOCKET"] ?? "").split(",").map((socket) => behind(service, socket).source),
    );
    expect(new Set(served).size).toBe(served.length);
    for (const directory of looked) expect(served.some((socket) => path.dirname(socket) === directory)).toBe(true);
    for (const socket of served) expect(looked).toContain(path.dirname(socket));
  });

  test("agents dial the controller where it listens for them", () => {
    const [controller] = ofTarget("controller");
    for (const [, service] of ofTarget("node-agent"))
      expect(settings(service)["HOLDFAST_CONTROLLERS"]).toBe(
        `${controller?.[0]}:${port(settings(controller?.[1] ?? {})["HOLDFAST_AGENT_LISTEN"] ?? "")}`,
      );
    expect(compose.services["cli"]?.environment?.["HOLDFAST_ADDRESS"]).toBe("controller:7600");
  });

  const sourceOf = (service: Service, inside: string | undefined) => behind(service, inside ?? "").source;
  const volumesOf = ({ volumes = [] }: Service) => volumes.flatMap((each) => (typeof each === "string" ? [each] : []));

  test("who speaks has its own certificate, of those that trust writes, in a volume that it may write", () => {
    const trust = compose.services["trust"] ?? {};
    for (const [name, service] of talking) {
      const source = sourceOf(service, settings(service)["HOLDFAST_TLS_DIR"]);
      expect(source, name).toBe(sourceOf(trust, `/trust/${name}`));
      expect(volumesOf(service), name).toContain(`${source}:/etc/holdfast/tls`);
    }
    const [, controller = {}] = ofTarget("controller")[0] ?? [];
    expect(sourceOf(controller, settings(controller)["HOLDFAST_CA_DIR"])).toBe(sourceOf(trust, "/trust/ca/issuing"));
    const cli = compose.services["cli"] ?? {};
    expect(sourceOf(cli, settings(cli)["HOLDFAST_CERTS"])).toBe(sourceOf(trust, "/trust/operator"));
  });

  test("the root's key is in a volume that trust alone has, and it has no network", () => {
    const having = services.filter(([, service]) => volumesOf(service).some((each) => each.startsWith("ca-root:")));
    expect(having.map(([name]) => name)).toEqual(["trust"]);
    expect(compose.services["trust"]).toMatchObject({ network_mode: "none", cap_drop: ["ALL"], user: "0:0" });
  });

  test("nothing of ours listens plainly beyond loopback but metrics, and the controller alone reaches Redis", () => {
    for (const [name, service] of ours)
      for (const [setting, value] of Object.entries(settings(service)))
        if (/_LISTEN$/.test(setting) && !/^(127\.0\.0\.1:|unix:)/.test(value))
          expect(
            setting === "HOLDFAST_ADMIN_LISTEN" || settings(service)["HOLDFAST_TLS_DIR"] !== undefined,
            `${name}: ${setting}`,
          ).toBe(true);
    const beside = services.filter(([, { networks = ["default"] }]) => networks.includes("store"));
    expect(beside.map(([name]) => name).sort()).toEqual(["controller", "redis"]);
    expect(compose.services["redis"]?.networks).toEqual(["store"]);
  });

  test("trust makes what they start with, also into volumes that are there already, and changes nothing the second time", () => {
    const dir = mkdtempSync(path.join(tmpdir(), "hf-"));
    const run = () =>
      spawnSync("sh", ["deploy/compose/trust.sh", dir], {
        cwd: root,
        encoding: "utf8",
        env: { PATH: `${path.join(root, "node_modules/.bin")}:${process.env["PATH"]}`, HOME: dir },
      });
    const held = () =>
      ["ca/root", "ca/issuing", "controller", "node-a", "node-b", "operator"].map((part) =>
        ["tls.crt", "tls.key", "ca.crt"].map((file) => readFileSync(path.join(dir, part, file), "utf8")),
      );
    try {
      for (const part of ["root", "issuing"]) mkdirSync(path.join(dir, "ca", part), { recursive: true });
      const first = run();
      expect([first.status, first.stderr]).toEqual([0, expect.stringContaining("keep it offline")]);
      const made = held();
      const second = run();
      expect([second.status, second.stderr]).toEqual([0, ""]);
      expect(held()).toEqual(made);
      // What is gone is made anew, and nothing else.
      rmSync(path.join(dir, "node-a"), { recursive: true });
      expect(run().status).toBe(0);
      expect(held().map((files, nth) => files[1] === made[nth]?.[1])).toEqual([true, true, true, false, true, true]);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  test("published ports are bound to loopback, and something of ours listens on ours", () => {
    for (const [, { ports = [] }] of services) for (const each of ports) expect(each).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    const [, controller] = ofTarget("controller")[0] ?? [];
    for (const each of controller?.ports ?? [])
      expect([settings(controller ?? {})["HOLDFAST_LISTEN"] ?? ""].map(port)).toContain(port(each));
  });

  test("every named volume is declared, and every one declared is used", () => {
    const used = services.flatMap(([, { volumes = [] }]) =>
      volumes.flatMap((volume) =>
        typeof volume === "string" && !/^[./]/.test(volume) ? [volume.split(":")[0] ?? ""] : [],
      ),
    );
    expect([...new Set(used)].sort()).toEqual(Object.keys(compose.volumes).sort());
  });

  test("files of the host that it names are here", () => {
    for (const [, { volumes = [] }] of services)
      for (const volume of volumes)
        if (typeof volume === "string" && volume.startsWith("./"))
          expect(existsSync(path.join(root, volume.split(":")[0] ?? "")), volume).toBe(true);
  });

  test("its Redis is started with all that a controller's start-up gate demands", () => {
    const [program, ...words] = compose.services["redis"]?.command ?? [];
    const given = Object.fromEntries(
      words.flatMap((word, nth) => (word.startsWith("--") ? [[word.slice(2), words[nth + 1]]] : [])),
    );
    const demanded = startChecks.flatMap(({ cure }) => {
      const [, setting = "", value = ""] = /^CONFIG SET (\S+) ([a-z]+)(?:,|$)/.exec(cure) ?? [];
      return setting === "" ? [] : [[setting, value]];
    });
    expect(demanded.length).toBeGreaterThan(3);
    expect([program, given]).toEqual(["redis-server", Object.fromEntries(demanded)]);
  });

  test("stores, collectors and controllers that settings name are services here, and ours listen on those ports", () => {
    const known: Readonly<Record<string, string>> = { redis: "6379", jaeger: "4317" };
    for (const [name, service] of ours)
      for (const setting of ["HOLDFAST_STORE", "HOLDFAST_OTLP_ENDPOINT"]) {
        const value = settings(service)[setting];
        if (value === undefined) continue;
        const { hostname, port: asked } = new URL(value);
        expect(Object.keys(compose.services), `${name}: ${value}`).toContain(hostname);
        expect(asked, `${name}: ${value}`).toBe(known[hostname]);
      }
  });

  test("foreign programs read files that are mounted there, and are published on the ports that the head of the file names", () => {
    for (const [name, { command = [], volumes = [] }] of services)
      for (const [, file = ""] of command.join(" ").matchAll(/--config\.file=(\S+)/g)) {
        const mount = volumes.find((each) => typeof each === "string" && file.startsWith(`${each.split(":")[1]}/`));
        const source = typeof mount === "string" ? (mount.split(":")[0] ?? "") : "";
        expect(existsSync(path.join(root, source, path.basename(file))), `${name}: ${file}`).toBe(true);
      }
    const head = read("docker-compose.yml").split("\n\n")[0] ?? "";
    const told = [...head.matchAll(/http:\/\/localhost:(\d+)/g)].map(([, number]) => number ?? "");
    expect(told.length).toBe(3);
    const published = services.flatMap(([, { ports = [] }]) => ports.map((each) => each.split(":")[1] ?? ""));
    expect(told.filter((number) => !published.includes(number))).toEqual([]);
  });

  test("without a profile one node is started, with the driver that it needs; every other service is in a profile", () => {
    const byProfile: Record<string, string[]> = {};
    for (const [name, { profiles = ["default"] }] of services)
      for (const profile of profiles) byProfile[profile] = [...(byProfile[profile] ?? []), name];
    expect(byProfile).toEqual({
      default: ["redis", "trust", "controller", "node-a", "local-driver"],
      "two-nodes": ["node-b", "local-driver-b"],
      observability: ["jaeger", "prometheus", "grafana"],
      tools: ["cli"],
    });
  });

  test("one target is one image, whose name the services share", () => {
    for (const [name, { image, build }] of services)
      if (build !== undefined) expect(image, name).toBe(`holdfast-${build.target}`);
  });

  test.each(ours)("%s: it is given longer to end than its parts take at most", (_, service) => {
    const seconds = Number(/^(\d+)s$/.exec(service.stop_grace_period ?? "")?.[1]);
    // The bound of createLifecycle.
    expect(seconds).toBeGreaterThan(15);
  });

  test("foreign images are pinned to a version", () => {
    for (const [name, { build, image }] of services)
      if (build === undefined) expect(image, name).toMatch(/^\$\{HOLDFAST_IMAGE_[A-Z]+:-[a-z/]+:v?\d+(\.\d+)*\}$/);
  });
});

describe("Dockerfile", () => {
  const lines = read("Dockerfile").split("\n");
  const stages = lines.flatMap((line) => /^FROM (?:--platform=\S+ )?\S+ AS (\S+)$/.exec(line)?.[1] ?? []);
  const stageOf = (name: string): readonly string[] => {
    const start = lines.findIndex((line) => line.endsWith(` AS ${name}`));
    const end = lines.findIndex((line, i) => i > start && line.startsWith("FROM "));
    return lines.slice(start, end === -1 ? undefined : end);
  };
  const sources = (stage: readonly string[]): readonly string[] =>
    stage.flatMap((line) => (/^COPY (?!--from)/.test(line) ? line.split(" ").slice(1, -1) : []));

  test("every service of ours has its stage", () => {
    for (const [, { build }] of services) if (build !== undefined) expect(stages).toContain(build.target);
  });

  test("what is copied is there, and what is started is copied", () => {
    for (const source of stages.flatMap((stage) => sources(stageOf(stage))))
      expect(existsSync(path.join(root, source)), source).toBe(true);
    const runtime = stageOf("runtime");
    expect(runtime).toContain("COPY --from=bundled /app/dist ./");
    for (const [name, stage] of stages.map((each) => [each, stageOf(each)] as const)) {
      const started = stage.flatMap((line) =>
        [...line.matchAll(/"((?:bin|deploy)\/[^"]+)"/g)].map(([, file = ""]) => file),
      );
      for (const file of started)
        expect(
          existsSync(path.join(root, "deploy/package", file)) ||
            [...sources(stage), ...sources(runtime)].some((copied) => file.startsWith(copied.replace(/\/$/, ""))),
          `${name}: ${file}`,
        ).toBe(true);
    }
  });

  test("every workspace's manifest is there when packages are installed", () => {
    const copied = sources(stageOf("manifests"));
    for (const folder of ["packages", "services"])
      for (const name of readdirSync(path.join(root, folder)))
        expect(copied, `${folder}/${name}`).toContain(`${folder}/${name}/package.json`);
  });

  test("packages are installed with secrets that stay in no layer, and in no image that is shipped", () => {
    const installs = read("Dockerfile")
      .replaceAll("\\\n", " ")
      .split("\n")
      .filter((line) => line.includes("npm ci"));
    expect(installs).toHaveLength(1);
    for (const line of installs)
      expect(line).toMatch(
        /^RUN --mount=type=secret,id=npmrc --mount=type=secret,id=ca +NPM_CONFIG_USERCONFIG=\/run\/secrets\/npmrc npm ci/,
      );
    for (const stage of ["runtime", "controller", "node-agent", "local-driver", "cli"])
      expect(stageOf(stage).join("\n")).not.toMatch(/npm ci|type=secret/);
  });

  test("process 1 of a container collects children also where it is another process of the host", () => {
    expect(stageOf("runtime").join("\n")).toMatch(/^ENV .*\bTINI_SUBREAPER=1$/m);
  });

  test("an image says its name, its version and its licence", () => {
    const { version, license } = JSON.parse(read("package.json")) as {
      readonly version: string;
      readonly license: string;
    };
    const shared = stageOf("runtime").join("\n");
    expect(shared).toContain(`org.opencontainers.image.version="${version}"`);
    expect(shared).toContain(`org.opencontainers.image.licenses="${license}"`);
    for (const target of ["controller", "node-agent", "local-driver", "cli"])
      expect(stageOf(target).join("\n")).toContain(`org.opencontainers.image.title="holdfast-${target}"`);
  });

  test("the image of the agent has no machine id of its own", () => {
    const agent = read("Dockerfile")
      .split(/^FROM /m)
      .find((stage) => stage.startsWith("runtime AS node-agent"));
    expect(agent).toMatch(/apt-get install .*&& rm -rf [^\n]*\/etc\/machine-id$/m);
  });

  test("the ports that an image exposes are those that its service listens on", () => {
    for (const [name, service] of ours) {
      const stage = stageOf(service.build?.target ?? "").join("\n");
      const exposed = /^EXPOSE (.*)$/m.exec(stage)?.[1]?.split(" ") ?? [];
      const listened = Object.entries(settings(service)).flatMap(([setting, value]) =>
        /_LISTEN$/.test(setting) && value.startsWith("0.0.0.0:") ? [port(value)] : [],
      );
      expect([...listened].sort(), name).toEqual([...exposed].sort());
    }
  });

  test("the health check asks where the service listens", () => {
    for (const [name, service] of ours) {
      const asked =
        /"deploy\/healthcheck\.mjs", "([^"]+)"/.exec(stageOf(service.build?.target ?? "").join("\n"))?.[1] ?? "";
      const listens = settings(service)["HOLDFAST_ADMIN_LISTEN"] ?? asked;
      expect(port(listens), name).toBe(port(asked));
    }
  });
});

describe("prometheus.yml", () => {
  const { scrape_configs } = parse(read("deploy/prometheus/prometheus.yml")) as {
    readonly scrape_configs: readonly {
      readonly static_configs?: readonly { readonly targets: readonly string[] }[];
      readonly dns_sd_configs?: readonly { readonly names: readonly string[]; readonly port: number }[];
    }[];
  };
  const always = scrape_configs.flatMap(({ static_configs = [] }) => static_configs.flatMap((each) => each.targets));
  const whenThere = scrape_configs.flatMap(({ dns_sd_configs = [] }) =>
    dns_sd_configs.flatMap((each) => each.names.map((name) => `${name}:${each.port}`)),
  );
  const adminOf = ([name, service]: (typeof talking)[number]): string =>
    `${name}:${port(settings(service)["HOLDFAST_ADMIN_LISTEN"] ?? "")}`;
  const inProfile = ([, { profiles }]: (typeof talking)[number]): boolean => profiles !== undefined;

  test("each target is a service's admin port; one of a profile is no target, rather than down, where it is not started", () => {
    expect([...always].sort()).toEqual(
      talking
        .filter((each) => !inProfile(each))
        .map(adminOf)
        .sort(),
    );
    expect([...whenThere].sort()).toEqual(talking.filter(inProfile).map(adminOf).sort());
  });
});

test("security f: no service opens an inspector or leaves a core file", () => {
  const started = [...read("Dockerfile").matchAll(/^CMD \["node", (.*)\]$/gm)].map(([, words = ""]) => words);
  expect(started.length).toBeGreaterThan(2);
  for (const words of started) expect(words).toMatch(/^"--disable-sigusr1", /);
  for (const name of ["controller", "node-a", "node-b", "local-driver", "local-driver-b", "trust", "cli"])
    expect(compose.services[name], name).toMatchObject({ ulimits: { core: 0 } });
});
