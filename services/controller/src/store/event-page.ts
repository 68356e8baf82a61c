/**
 * How many events a watch takes from the store at once. They are held until the reader of the watch has taken the last of them, and one that
 * takes none holds them for as long as it likes: what it costs is this many, however far behind its token is.
 */
export const eventPage = 32;
