/**
 * Names of the files of backups: cell, controller, installation and time. Controllers that share a directory never write one file, and none
 * takes a file of another installation for its own.
 */
export interface BackupOwner {
  readonly cell: string;
  readonly controllerId: string;
  readonly clusterUid: string;
}

const ending = ".export";

/** Neither a cell nor the word for an installation has a dot. */
const beginning = ({ cell, controllerId, clusterUid }: BackupOwner): string =>
  `${cell}.${clusterUid.slice(0, 8)}.${controllerId}.`;

const stampOf = (at: number): string => new Date(at).toISOString().replace(/[-:]|\.\d+/g, "");

const timeOf = (stamp: string): number | undefined => {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(stamp);
  if (parts === null) return undefined;
  const [, year, month, day, hour, minute, second] = parts;
  const at = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(at) ? undefined : at;
};

export interface NamedBackup {
  readonly name: string;
  readonly at: number;
}

export const backupName = (owner: BackupOwner, at: number): string => `${beginning(owner)}${stampOf(at)}${ending}`;

const named = (name: string, stamp: string): readonly NamedBackup[] => {
  const at = timeOf(stamp);
  return at === undefined ? [] : [{ name, at }];
};

const newestFirst = (backups: readonly NamedBackup[]): readonly NamedBackup[] =>
  [...backups].sort((a, b) => b.at - a.at);

/** Those of one controller, the newest first. */
export const backupsOf = (owner: BackupOwner, names: readonly string[]): readonly NamedBackup[] => {
  const start = beginning(owner);
  return newestFirst(
    names.flatMap((name) =>
      name.startsWith(start) && name.endsWith(ending) ? named(name, name.slice(start.length, -ending.length)) : [],
    ),
  );
};

/** Those of every controller of a cell, the newest first. */
export const backupsOfCell = (cell: string, names: readonly string[]): readonly NamedBackup[] =>
  newestFirst(
    names.flatMap((name) => {
      const stamp = name.startsWith(`${cell}.`) ? /\.([^.]+)\.export$/.exec(name)?.[1] : undefined;
      return stamp === undefined ? [] : named(name, stamp);
    }),
  );
