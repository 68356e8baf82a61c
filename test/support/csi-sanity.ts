import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "../..");
const minute = 60_000;

interface Finished {
  readonly code: number;
  readonly output: string;
}

const run = (command: string, args: readonly string[], deadlineMs: number): Promise<Finished> =>
  new Promise((resolve, reject) => {
    execFile(
      command,
      args,
      { cwd: root, timeout: deadlineMs, killSignal: "SIGKILL", maxBuffer: 1 << 26 },
      (error, stdout, stderr) => {
        const output = stdout + stderr;
        if (error === null) resolve({ code: 0, output });
        else if (typeof error.code === "number") resolve({ code: error.code, output });
        else reject(new Error(`${command} ${args.join(" ")}: ${error.message}\n${output}`));
      },
    );
  });

/** Builds the peer from test/peers, whose go.mod pins it; Go's own cache makes a second build cheap. */
export const buildCsiSanity = async (): Promise<string> => {
  const binary = path.join(root, ".cache", "csi-sanity");
  await mkdir(path.dirname(binary), { recursive: true });
  const tool = "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity";
  const { code, output } = await run(
    "go",
    ["build", "-C", path.join(root, "test/peers"), "-o", binary, tool],
    10 * minute,
  );
  if (code !== 0) throw new Error(`csi-sanity did not build:\n${output}`);
  return binary;
};

export interface SanityTarget {
  readonly dir: string;
  readonly socket: string;
  /** Where the controller's services are, when elsewhere. */
  readonly controllerSocket?: string;
  readonly accessType?: "mount" | "block";
  /** Of the volumes it makes, and what it expands them to. */
  readonly bytes?: { readonly made: number; readonly expanded: number };
  /** Values ModifyVolume accepts. */
  readonly mutableParameters: Readonly<Record<string, string>>;
}

export interface SanityResult {
  /** Ginkgo's own line: "Ran N of M Specs". */
  readonly ran: string;
  readonly passed: number;
  readonly failed: readonly string[];
  /** Each with its reason. */
  readonly skipped: readonly string[];
  readonly pending: readonly string[];
  readonly output: string;
}

interface Spec {
  readonly ContainerHierarchyTexts: readonly string[] | null;
  readonly LeafNodeText: string;
  readonly LeafNodeType: string;
  readonly State: string;
  readonly Failure?: { readonly Message: string };
}

const nameOf = (spec: Spec): string => [...(spec.ContainerHierarchyTexts ?? []), spec.LeafNodeText].join(" › ");

export const runCsiSanity = async (binary: string, target: SanityTarget): Promise<SanityResult> => {
  const report = path.join(target.dir, "sanity.json");
  const parameters = path.join(target.dir, "mutable.yaml");
  const { made, expanded } = target.bytes ?? { made: 100 << 20, expanded: 200 << 20 };
  await writeFile(
    parameters,
    Object.entries(target.mutableParameters)
      .map(([name, value]) => `${name}: "${value}"\n`)
      .join(""),
  );
  const { output } = await run(
    binary,
    [
      `--csi.endpoint=${target.socket}`,
      ...(target.controllerSocket === undefined ? [] : [`--csi.controllerendpoint=${target.controllerSocket}`]),
      `--csi.mountdir=${path.join(target.dir, "mnt")}`,
      `--csi.stagingdir=${path.join(target.dir, "stg")}`,
      `--csi.testvolumesize=${made}`,
      `--csi.testvolumeexpandsize=${expanded}`,
      `--csi.testvolumeaccesstype=${target.accessType ?? "mount"}`,
      `--csi.testvolumemutableparameters=${parameters}`,
      "--csi.testnodevolumeattachlimit",
      "--ginkgo.no-color",
      `--ginkgo.json-report=${report}`,
    ],
    5 * minute,
  );
  const suites = JSON.parse(await readFile(report, "utf8")) as readonly { readonly SpecReports: readonly Spec[] }[];
  const specs = suites.flatMap((suite) => suite.SpecReports).filter((spec) => spec.LeafNodeType === "It");
  const inState = (...states: readonly string[]): readonly Spec[] =>
    specs.filter((spec) => states.includes(spec.State));
  return {
    ran: /Ran \d+ of \d+ Specs/.exec(output)?.[0] ?? "no summary",
    passed: inState("passed").length,
    failed: specs
      .filter((spec) => !["passed", "skipped", "pending"].includes(spec.State))
      .map((spec) => `${nameOf(spec)}: ${spec.Failure?.Message ?? spec.State}`),
    skipped: inState("skipped").map((spec) => `${nameOf(spec)}: ${spec.Failure?.Message ?? "no reason given"}`),
    pending: inState("pending").map(nameOf),
    output,
  };
};
