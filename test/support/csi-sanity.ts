import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { buildGoProgram, root, runToEnd } from "./run-go.ts";

const minute = 60_000;

export const buildCsiSanity = (): Promise<string> =>
  buildGoProgram(
    "csi-sanity",
    path.join(root, "test/peers"),
    "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity",
    10 * minute,
  );

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
  const { output } = await runToEnd(
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
