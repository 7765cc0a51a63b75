/** Files that are seen half written or vanish, and directories that vanish. */
import type { ExtraFault } from './extra-fault.js';
import { partsOf } from './names.js';
import { deleteName } from './publishing.js';

export const FILE_FAULTS: Readonly<Record<string, ExtraFault>> = {
  torn_files: ({ directories }, dice) => {
    for (const directory of dice.some(directories, 0.7)) directory.torn = dice.pick([0, 0.5, 1]);
  },
  /** A file vanishes with its content; it may come back. */
  file_vanishes: (scene, dice) => {
    if (scene.directories.length === 0) return;
    const directory = dice.pick(scene.directories);
    const { server } = directory;
    const path = dice.pick(scene.spec.types);
    const had = server.names.filter((name) => partsOf(name).typeUrl === path);
    const back = had.map((name) => {
      const resource = server.get(name)!;
      const published = scene.oracle.history.current(server.name, name)!;
      deleteName(scene, server, name);
      return { name, resource, published };
    });
    directory.remove(path);
    if (dice.chance(0.3)) return;
    scene.queue.after(dice.between(1, 5_000), () => {
      for (const { name, resource, published } of back) {
        if (server.get(name)) continue;
        scene.oracle.history.notePublished({ ...published, atMs: scene.queue.nowMs });
        server.set(name, resource.body, resource.isRedirect);
      }
      directory.write([path]);
    });
  },
  directory_vanishes: ({ directories, queue }, dice) => {
    if (directories.length === 0) return;
    const directory = dice.pick(directories);
    directory.isReadable = false;
    directory.stir();
    queue.after(dice.between(10, 30_000), () => {
      directory.isReadable = true;
      directory.stir();
    });
  },
};
