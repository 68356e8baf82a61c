import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { shippedPackages } from "./licences-page.ts";

/** A package that comes without its licences: files that have the texts, from the root. */
const textsElsewhere: Readonly<Record<string, readonly string[]>> = {
  "@bufbuild/protobuf": ["LICENSE", "node_modules/google-protobuf/LICENSE.md"],
};

const isLicence = (file: string): boolean => /^(licen[sc]e|copying|notice)\b/i.test(file);

const textsOf = (root: string, place: string, name: string): readonly string[] => {
  const own = readdirSync(path.join(root, place)).filter(isLicence).sort();
  const files = own.length > 0 ? own.map((file) => path.join(place, file)) : (textsElsewhere[name] ?? []);
  if (files.length === 0)
    throw new Error(`${name} has no licence file: textsElsewhere of licence-texts.ts has to name one`);
  return files.map((file) => readFileSync(path.join(root, file), "utf8").trim());
};

/** Each input of the bundle is our own or of a package that may be shipped: code of a tool stops the bundle. */
const checkInputs = (inputs: readonly string[], places: readonly string[]): void => {
  for (const input of inputs) {
    const end = input.lastIndexOf("node_modules/");
    if (end < 0) continue;
    const place = /^(?:@[^/]+\/)?[^/]+/.exec(input.slice(end + "node_modules/".length))?.[0] ?? "";
    if (!places.includes(`${input.slice(0, end)}node_modules/${place}`))
      throw new Error(`the bundle has ${input}, of a package that the lock file does not ship (docs/licences.md)`);
  }
};

/** Of every package whose code may be among the inputs. */
export const licenceTexts = (root: string, inputs: readonly string[]): string => {
  const packages = shippedPackages(root);
  checkInputs(
    inputs,
    packages.map(({ place }) => place),
  );
  const parts = packages.map(({ place, name, version, licence }) =>
    [`${name} ${version} (${licence})`, "", ...textsOf(root, place, name)].join("\n"),
  );
  return `${["Holdfast contains code of these packages.", ...parts].join(`\n\n${"-".repeat(80)}\n\n`)}\n`;
};
