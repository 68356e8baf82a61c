/** The descriptors of the whole API, which code generation leaves beside the code. */
import { readFile } from "node:fs/promises";

const image = new URL("../gen/image.binpb", import.meta.url);

/** Rejects where the code was generated without an image. */
export const readApiImage = (): Promise<Uint8Array> => readFile(image);
