import { matchesInCode, perFile, placeOf, type Rule } from "./architecture-rule.ts";
import type { Import, SourceFile } from "./architecture-source.ts";

/** Time, chance and the outside world: to the domain they are arguments. */
const ambient =
  /(?<![.\w$])(?:Date\.now|new\s+Date\s*\(\s*\)|Math\.random|performance\.|crypto\.|setTimeout|setInterval|setImmediate|fetch\s*\(|globalThis\.|console\.)/g;

/** Modules that reach out of the process. A service file that imports one is an adapter. */
const io = /^node:(?:fs|net|http|http2|https|tls|dgram|dns|child_process|sqlite|worker_threads)(?:\/|$)|^ioredis$/;
/** `controller` and `node` are the two halves of the local driver. */
const logicParts = new Set([
  "api",
  "reconcile",
  "plugins",
  "volumes",
  "workloads",
  "nodes",
  "domain",
  "controller",
  "node",
]);
/** Parts in which not even the file itself may be an adapter: what they need of the world comes as a port. */
const pureParts = new Set(["api", "reconcile", "domain", "controller", "node"]);
/** Folders that are adapters as a whole, also those of their files that reach nothing themselves. */
const adapterFolders = /\/store\/(?:redis|sqlite)\/|^packages\/local-driver\/src\/(?:host|state)\//;

type Home = { library: RegExp; homes: RegExp; name: string };
/** Each library has one home; whoever changes it reads one folder. */
const libraryHomes: readonly Home[] = [
  { name: "ioredis", library: /^ioredis$/, homes: /^services\/controller\/src\/store\/redis\// },
  { name: "node:sqlite", library: /^node:sqlite$/, homes: /^services\/controller\/src\/store\/sqlite\// },
  {
    name: "the OpenTelemetry SDK",
    library: /^@opentelemetry\/(?!api$)/,
    homes: /^packages\/shared\/src\/telemetry(?:\/|\.ts$)/,
  },
  {
    name: "@peculiar/x509",
    library: /^(?:@peculiar\/|reflect-metadata$)/,
    homes: /^packages\/shared\/src\/trust\/make-certificate\.ts$/,
  },
  { name: "prom-client", library: /^prom-client$/, homes: /^packages\/shared\/src\/metrics\.ts$/ },
  { name: "pino", library: /^pino(?:\/|$)/, homes: /^packages\/shared\/src\/log\// },
  { name: "grpc-js", library: /^@grpc\//, homes: /^packages\/(?:shared\/src\/grpc|sim-plugin\/src\/role)\// },
  {
    name: "nice-grpc",
    library: /^nice-grpc(?:-|$)/,
    homes:
      /^packages\/shared\/src\/(?:grpc\/|errors\/grpc-status\.ts$)|^packages\/(?:csi|sim-plugin)\/src\/|^packages\/local-driver\/src\/api\/|^services\/[^/]+\/src\/(?:api|nodes|plugins)\/|^services\/[^/]+\/src\/controller-link/,
  },
];

const model = /^packages\/model\/src\//;

const generated = /^packages\/shared\/src\/gen\//;
const generatedHomes =
  /\/convert[^/]*\.ts$|^services\/[^/]+\/src\/(?:api|nodes|plugins)\/|^services\/[^/]+\/src\/controller-link|^packages\/(?:csi|sim-plugin)\/src\/|^packages\/local-driver\/src\/api\/|^packages\/shared\/src\/(?:grpc|testing)\/|^packages\/cli\/src\/(?:commands|completion|doctor|frame)\//;

const outsideOfServices = /^(?:test|bench|demo|examples)\//;
const peersForTests = /^packages\/(?:sim-plugin|local-driver)\//;
/**
 * Entry files: main.ts, and the top of the simulated plugin, which starts processes for tests. And where the local driver kills
 * children by their number: a group of its own, and those of a killed life, which are no children of this process.
 */
const ownsProcess =
  /\/(?:[\w-]*main|lifecycle)\.ts$|^packages\/sim-plugin\/src\/[^/]+\.ts$|^packages\/local-driver\/src\/host\/(?:run-tool|stray-children)\.ts$/;
const sharedByAllParts = new Set(["domain", "ports.ts", "agent-ports.ts", "config.ts", "convert.ts"]);

/** The rules about who may import what (R1–R7 of docs/architecture.md). */
export const importRules: readonly Rule[] = [
  {
    id: "R1",
    says: "the model imports only itself, domain/ only its own domain/ and the model; they know no clock, no chance, no I/O",
    check: perFile((file) => {
      const own = model.exec(file.path)?.[0] ?? /^(.*\/domain\/)/.exec(file.path)?.[1];
      if (own === undefined || file.isTest) return [];
      const foreign = each(
        file,
        ({ target = "" }) => !target.startsWith(own) && !model.test(target),
        (it) => `${own} imports ${it.specifier}; pass it in as an argument`,
      );
      return [...foreign, ...matchesInCode(file, ambient, (found) => `${own} uses ${found}; take it as an argument`)];
    }),
  },
  {
    id: "R2",
    says: "ports.ts imports types of its own domain/ and of the model only",
    check: perFile((file) => {
      const src = /^(.*\/)ports\.ts$/.exec(file.path)?.[1];
      if (src === undefined) return [];
      const allowed = ({ target = "", kind }: Import) =>
        kind === "type" && (target.startsWith(`${src}domain/`) || model.test(target));
      return each(
        file,
        (it) => !allowed(it),
        (it) => `ports.ts imports ${it.specifier}; only types of ${src}domain/ and the model belong in a port`,
      );
    }),
  },
  {
    id: "R3",
    says: "logic never imports an adapter: it takes a port, and app.ts hands one in",
    check: logicWithoutAdapters,
  },
  {
    id: "R4",
    says: "each library has one home",
    check: perFile((file) => {
      if (file.isTest || outsideOfServices.test(file.path)) return [];
      return libraryHomes.flatMap(({ name, library, homes }) =>
        homes.test(file.path)
          ? []
          : each(
              file,
              (it) => library.test(it.specifier),
              () => `${name} is imported outside of its home`,
            ),
      );
    }),
  },
  {
    id: "R5",
    says: "generated types stop at convert.ts, api/ and the client edges",
    check: perFile((file) => {
      if (file.isTest || outsideOfServices.test(file.path) || generatedHomes.test(file.path)) return [];
      return each(
        file,
        ({ target }) => generated.test(target ?? ""),
        (it) => `generated type ${it.specifier} goes no further than the edges`,
      );
    }),
  },
  {
    id: "R6",
    says: "only app.ts, and the *-wiring.ts beside it, know several parts; only main.ts and lifecycle.ts touch process",
    check: perFile(oneCompositionRoot),
  },
  {
    id: "R7",
    says: "services never import each other, packages import no service, the peers serve tests, bench, demo and examples, and the local driver knows nothing of its caller",
    check: perFile((file) =>
      each(
        file,
        ({ target }) => target !== undefined && crosses(file, target),
        (it) => `${it.specifier} is not for this file to import`,
      ),
    ),
  },
];

function each(file: SourceFile, wrong: (it: Import) => boolean, message: (it: Import) => string) {
  return file.imports.filter(wrong).map((it) => ({ line: it.line, message: message(it) }));
}

function isAdapter(file: SourceFile): boolean {
  return (
    placeOf(file.path) !== undefined &&
    !file.isTest &&
    file.imports.some(({ specifier, kind }) => kind !== "type" && io.test(specifier))
  );
}

function logicWithoutAdapters(files: readonly SourceFile[]) {
  const adapters = new Set(files.filter(isAdapter).map(({ path }) => path));
  return files.flatMap((file) => {
    const part = placeOf(file.path)?.part ?? "";
    if (file.isTest || !logicParts.has(part)) return [];
    const found = pureParts.has(part)
      ? each(
          file,
          ({ specifier, kind }) => kind !== "type" && io.test(specifier),
          (it) => `${part}/ reaches the outside world by ${it.specifier}; take a port`,
        )
      : [];
    if (!adapters.has(file.path)) {
      const reaches = ({ target, kind }: Import) =>
        kind !== "type" && (adapters.has(target ?? "") || adapterFolders.test(target ?? ""));
      found.push(...each(file, reaches, (it) => `logic imports the adapter ${it.specifier}; take a port`));
    }
    return found.map((finding) => ({ path: file.path, ...finding }));
  });
}

function oneCompositionRoot(file: SourceFile) {
  const place = placeOf(file.path);
  const findings: { line: number; message: string }[] = [];
  const mayTouchProcess = file.isTest || outsideOfServices.test(file.path) || ownsProcess.test(file.path);
  if (!mayTouchProcess) {
    findings.push(
      ...matchesInCode(
        file,
        /(?<![.\w$])process(?=\s*(?:\??\.|[[;,)]))/g,
        () => "process is touched outside of main.ts and lifecycle.ts",
      ),
    );
    findings.push(
      ...each(
        file,
        ({ specifier }) => specifier === "node:process",
        () => "node:process is imported outside of main.ts and lifecycle.ts",
      ),
    );
  }
  if (place === undefined || file.isTest || /^(?:app|(?:serve-)?main|[\w-]+-wiring)\.ts$/.test(place.part))
    return findings;
  findings.push(
    ...each(
      file,
      ({ target }) => /\/src\/(?:app|(?:serve-)?main|[\w-]+-wiring)\.ts$/.test(target ?? ""),
      (it) => `${it.specifier} is the composition root; nothing is below it`,
    ),
  );
  const foreign = new Set(
    file.imports
      .map(({ target }) => placeOf(target ?? "")?.part)
      .filter(
        (part) => part !== undefined && part !== place.part && !sharedByAllParts.has(part) && !part.endsWith(".ts"),
      ),
  );
  if (foreign.size > 1)
    findings.push({
      line: 1,
      message: `knows ${[...foreign].join(", ")} besides ${place.part}; only app.ts joins parts`,
    });
  return findings;
}

function crosses({ path, isTest }: SourceFile, target: string): boolean {
  const from = workspaceOf(path);
  const to = workspaceOf(target);
  if (to === undefined || from === to) return false;
  if (peersForTests.test(target)) return !(isTest || outsideOfServices.test(path));
  if (from === undefined) return false;
  if (to.startsWith("services/")) return true;
  if (to === "packages/model") return false;
  if (from === "packages/local-driver") return to !== "packages/shared";
  return from === "packages/shared";
}

function workspaceOf(path: string): string | undefined {
  return /^((?:packages|services)\/[^/]+)\//.exec(path)?.[1];
}
