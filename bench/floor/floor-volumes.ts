import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

/** A volume as every process of the floor knows it from its start: what the product looks up, checks or makes is not the floor's. */
export interface FloorVolume {
  readonly name: string;
  /** What its plugin calls it. */
  readonly id: string;
  readonly context: Readonly<Record<string, string>>;
  readonly staging: string;
  readonly target: string;
}

/** As long as those of the product. */
export const pathsOf = (root: string, index: number): Pick<FloorVolume, "staging" | "target"> => {
  const directory = String(index).padStart(32, "0");
  return {
    staging: path.join(root, "staging", directory),
    target: path.join(root, "publish", directory, "0a1b2c3d4e5f0a1b2c3d4e5f0a1b2c3d"),
  };
};

export const writeFloorVolumes = (file: string, volumes: readonly FloorVolume[]): void =>
  writeFileSync(file, JSON.stringify(volumes));

export const readFloorVolumes = (file: string): ((name: string) => FloorVolume) => {
  const volumes = JSON.parse(readFileSync(file, "utf8")) as readonly FloorVolume[];
  const byName = new Map(volumes.map((volume) => [volume.name, volume]));
  return (name) => {
    const volume = byName.get(name);
    if (volume === undefined) throw new Error(`the floor was not started for volume "${name}"`);
    return volume;
  };
};
