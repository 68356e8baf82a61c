/** The named options of HOLDFAST_DOCKER_TEMPLATES: a JSON object of objects of texts, in the words of `docker volume create -o`. */
import { readFile } from "node:fs/promises";
import { HoldfastError } from "@holdfast/shared/errors/holdfast-error";
import { optionFaults, type VolumeOptions, type VolumeTemplates } from "../domain/wanted-volume.ts";

/** Longer ones are a mistake. */
const maxBytes = 64 * 1024;

export const createDockerTemplates = (file: string | undefined) => async (): Promise<VolumeTemplates> => {
  if (file === undefined) return {};
  const text = await readFile(file, "utf8").catch((error: Error) => {
    throw unusable(file, error.message);
  });
  if (text.length > maxBytes) throw unusable(file, `it is longer than ${maxBytes} bytes`);
  return templatesFrom(file, text);
};

export const templatesFrom = (file: string, text: string): VolumeTemplates => {
  const value = parsed(file, text);
  if (!isObject(value)) throw unusable(file, "it is no object of templates");
  const faults: string[] = [];
  for (const [name, options] of Object.entries(value)) {
    if (!isOptions(options)) faults.push(`${name}: has to be an object of texts`);
    else for (const { field, description } of optionFaults(options)) faults.push(`${name}.${field}: ${description}`);
  }
  if (faults.length > 0) throw unusable(file, faults.join("; "));
  return value as VolumeTemplates;
};

const parsed = (file: string, text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw unusable(file, error instanceof Error ? error.message : String(error));
  }
};

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const isOptions = (value: unknown): value is VolumeOptions =>
  isObject(value) && Object.values(value).every((one) => typeof one === "string");

const unusable = (file: string, why: string): HoldfastError =>
  new HoldfastError({
    kind: "precondition",
    reason: "CONFIG_INVALID",
    message: `HOLDFAST_DOCKER_TEMPLATES: ${file} cannot be used: ${why}; put it right, it is read again at each use`,
  });
