// `npm run images` lists the foreign images of the Dockerfile and the compose file, and whether each is held by a digest; with --release one
// that is not fails. A tag is whatever a registry says today. Variables of the environment name others than the defaults.
import { readFileSync } from "node:fs";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "..");
const read = (file) => readFileSync(path.join(root, file), "utf8");
const held = /^\S+@sha256:[0-9a-f]{64}$/;

/** variable → the image that it names here and now */
const images = new Map();
for (const file of ["Dockerfile", "docker-compose.yml"])
  for (const [, , variable, fallback] of read(file).matchAll(/(^ARG |\$\{)(HOLDFAST_IMAGE_[A-Z]+)(?:=|:-)([^\s}"]+)/gm))
    images.set(variable, process.env[variable] || fallback);

for (const [variable, image] of images) console.log(`${held.test(image) ? "digest" : "tag   "}  ${variable}=${image}`);
const loose = [...images].filter(([, image]) => !held.test(image));
if (loose.length > 0 && process.argv.includes("--release")) {
  const cures = loose.map(([variable, image]) => {
    const name = image.replace(/@.*$/, "");
    return `  ${variable}=${name}@$(docker buildx imagetools inspect ${name} --format '{{.Manifest.Digest}}')`;
  });
  console.error(`a release takes no image by its tag alone; look at what each is now, and set:\n${cures.join("\n")}`);
  process.exitCode = 1;
}
