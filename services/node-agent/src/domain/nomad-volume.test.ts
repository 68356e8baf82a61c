import { expect, test } from "vitest";
import { type NomadRequest, nomadVolume } from "./nomad-volume.ts";

const request: NomadRequest = {
  ...{ namespace: "default", id: "74564d17-ce50-0bc1-48e5-6feaa41ede48", name: "db" },
  ...{ capacityMin: "5", capacityMax: "10", parameters: '{"plugin":"csi.x","fs":"xfs","param.tier":"gold"}' },
};
const fields = (change: Partial<NomadRequest>): readonly string[] => {
  const result = nomadVolume({ ...request, ...change });
  return "faults" in result ? result.faults.map(({ field }) => field) : [];
};

test("a specification is a volume of its id, for the node that asks, deleted when Nomad deletes it", () => {
  expect(nomadVolume(request)).toEqual({
    volume: {
      ...{ id: request.id, plugin: "csi.x", requiredBytes: 5n, limitBytes: 10n, fsType: "xfs", mountFlags: [] },
      ...{ parameters: { tier: "gold" }, labels: { "nomad.name": "db" }, reclaim: "delete", atOnce: false, grow: true },
    },
  });
});

test("what Nomad says in another place, what is no option and what is no text is told at once", () => {
  const options = { size: "1GiB", limit: "1GiB", create: "now", template: "t", sise: "1" };
  expect([...fields({ namespace: "No_t", id: "..", capacityMin: "", capacityMax: "-1" })].sort()).toEqual([
    "DHV_CAPACITY_MAX_BYTES",
    "DHV_CAPACITY_MIN_BYTES",
    "DHV_NAMESPACE",
    "DHV_VOLUME_ID",
  ]);
  expect([...fields({ parameters: JSON.stringify(options) })].sort()).toEqual([
    ...["parameters.create", "parameters.limit", "parameters.plugin", "parameters.sise", "parameters.size"],
    "parameters.template",
  ]);
  for (const parameters of ["[]", "x", '{"plugin":1}']) expect(fields({ parameters })).toEqual(["DHV_PARAMETERS"]);
  expect(fields({ parameters: "null" })).toEqual(["parameters.plugin"]);
});
