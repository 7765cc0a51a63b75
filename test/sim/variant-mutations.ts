/** Bugs for mutations.ts in variants of resources (TP2), which the worlds of the simulation do not have. */
import type { Mutation, UnitTest } from './mutation.js';

/** The simulation of variants alone. */
const MODEL: UnitTest = {
  file: 'test/unit/gateway/core/session/variants-model.test.ts',
  title: 'clients hold exactly their variants, whatever came before (TP2)',
};
const AT_SOURCES = 'test/unit/authorities/core/sources/variants.test.ts';
const AT_CLIENTS = 'test/unit/gateway/core/session/variants.test.ts';

export const VARIANT_MUTATIONS: readonly Mutation[] = [
  {
    title: 'a client keeps the variant that another one replaced',
    file: 'gateway/core/delta/sent-variants.ts',
    from: 'if (isToGo && !this.#isShared(known))',
    to: 'if (false as boolean)',
    unitTest: MODEL,
  },
  {
    title: 'a variant is removed although another subscription brings it',
    file: 'gateway/core/delta/sent-variants.ts',
    from: 'return other !== undefined && brings(other, constraints);',
    to: 'return false;',
    unitTest: {
      file: AT_CLIENTS,
      title:
        'one variant for several sets of parameters is sent once, and stays for the last (TP2)',
    },
  },
  {
    title: 'a stream resumes with the versions of variants',
    file: 'authorities/core/sources/delta-stream.ts',
    from: 'if (projection.name.parameters !== undefined) return null;',
    to: '',
    unitTest: {
      file: AT_SOURCES,
      title: 'after a reconnect, variants that the source does not send again are removed (TP2)',
    },
  },
  {
    title: 'a variant that replaces another counts as a second one',
    file: 'authorities/core/sources/delta-stream.ts',
    from: 'yield* this.#forEach(text, portions, context, note)',
    to: '{ context }',
    unitTest: MODEL,
  },
  {
    title: 'the removal of one variant removes all',
    file: 'authorities/core/sources/resource-intake.ts',
    from: 'if (held?.constraints && held.constraints.text === variant)',
    to: 'if (held)',
    unitTest: MODEL,
  },
  {
    title: 'the absence of one variant removes all',
    file: 'authorities/core/sources/resource-intake.ts',
    from: 'if (this.#contents.hasVariants && this.#hasVariant(context.typeUrl, name)) return;',
    to: '',
    unitTest: MODEL,
  },
  {
    title: 'a refused variant that the source removed counts as left',
    file: 'authorities/core/sources/resource-intake.ts',
    from: 'subscription.refusedVariants?.delete(variant);',
    to: '',
    unitTest: {
      file: AT_SOURCES,
      title: 'a refused variant that the source removed is not requested again (TP2)',
    },
  },
  {
    title: 'a redirect loses its constraints',
    file: 'authorities/core/projection.ts',
    from: 'constraints ? { ...projection, constraints } : projection };',
    to: 'projection };',
    unitTest: {
      file: AT_SOURCES,
      title: 'a redirect leads to its target with the same parameters (TP1, TP2)',
    },
  },
  {
    title: 'a variant of the stream before counts as a second one',
    file: 'authorities/core/sources/source-contents.ts',
    from: 'if (subscription.variant !== undefined) subscription.variant = undefined;',
    to: '',
    unitTest: MODEL,
  },
  {
    title: 'a second variant replaces the first',
    file: 'authorities/core/sources/resource-intake.ts',
    from: 'if (variant === text) {',
    to: 'if (variant !== undefined) {',
    unitTest: {
      file: AT_SOURCES,
      title: 'a second variant for the same parameters is refused, and both are named (TP2)',
    },
  },
  {
    title: 'a variant is served to clients that it is not for',
    file: 'authorities/core/projection.ts',
    from: 'if (!constraints || constraints.matches(parametersIn(parameters))) return undefined;',
    to: 'return undefined;',
    unitTest: {
      file: AT_SOURCES,
      title: 'each subscription gets the variant whose constraints its parameters meet (TP2)',
    },
  },
  {
    title: 'endpoints of a cluster with parameters are looked for without them',
    file: 'authorities/core/projection.ts',
    from: 'return keyWithParameters(key, referrer.parameters);',
    to: 'return key;',
    unitTest: {
      file: AT_SOURCES,
      title: 'what a variant refers to has its parameters (TP2)',
    },
  },
  {
    title: 'a client that requested no variants is sent constraints',
    file: 'gateway/core/session/response-draft.ts',
    from: 'if (!this.#variants) this.#add(projection, projection.field, suffix, isNew);',
    to: 'if (!this.#variants) this.#add(projection, variantField(projection), suffix, isNew);',
    unitTest: {
      file: AT_CLIENTS,
      title: 'a client is sent constraints of its names too, once it has requested a variant (TP2)',
    },
  },
];
