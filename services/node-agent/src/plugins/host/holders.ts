import type { VolumeState } from "../../domain/types.ts";

/** The volumes of a plugin that are, or may be, staged or published here: without it they cannot be taken down again. */
export function holdersOf(volumes: Iterable<VolumeState>, plugin: string): readonly string[] {
  const held: string[] = [];
  for (const { ref, stage, claims } of volumes) {
    if (ref.plugin !== plugin) continue;
    const published = Object.values(claims).some(({ phase }) => phase !== "gone");
    if (stage.phase !== "unstaged" || published) held.push(`${ref.namespace}/${ref.volume}`);
  }
  return held;
}
