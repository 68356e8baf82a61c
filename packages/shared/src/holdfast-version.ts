/** The release that this tree is. `npm run release` writes it here and into each package.json; a test holds them together. */
export const holdfastVersion = "0.1.0";
