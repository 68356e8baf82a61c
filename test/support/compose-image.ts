import { readFile } from "node:fs/promises";
import path from "node:path";
import { root } from "./run-go.ts";

/** The foreign image that docker-compose.yml starts where `HOLDFAST_IMAGE_…` names no other. */
export const composeImage = async (name: string): Promise<string> => {
  const compose = await readFile(path.join(root, "docker-compose.yml"), "utf8");
  const image = new RegExp(`\\$\\{HOLDFAST_IMAGE_${name}:-([^}]+)\\}`).exec(compose)?.[1];
  if (image === undefined) throw new Error(`docker-compose.yml has no image of HOLDFAST_IMAGE_${name}`);
  return image;
};
