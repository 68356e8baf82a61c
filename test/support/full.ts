/** `npm run test:full` asks for the whole figures; `npm test` for a seeded sample of them. */
export const full = process.env["HOLDFAST_FULL"] === "1";

export const sample = (fullCount: number, quickCount: number): number => (full ? fullCount : quickCount);
