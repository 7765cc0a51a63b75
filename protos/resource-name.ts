/**
 * TP1 resource naming (cncf/xds proposal TP1, "URI-based xDS resource names"). Parses and canonicalises
 * names (URNs and globs) and locators (URLs with processing directives) from clients and sources.
 */
export { maxNameBytes, nameErrorCodes } from './resource-name-text.js';
export type { NameError, NameErrorCode, Parsed } from './resource-name-text.js';
export { isXdstp, makeResourceName, withAuthorityAndId } from './resource-urn.js';
export { parametersIn, withParameters } from './dynamic-parameters.js';
export type { ParameterizedName } from './dynamic-parameters.js';
export { VariantNames } from './variant-names.js';
export { globKeyOf, globKeyOfKey, globKeyOfText, isMemberOf } from './glob.js';
export { authorityOfKey, nameOfKey } from './name-of-key.js';
export {
  isOldStyle,
  oldStyleName,
  parametersOfKey,
  plainKeyOf,
  wireText,
} from './old-style-name.js';
export { parseResourceName } from './resource-name-parser.js';
export type { ContextParam, ResourceName, ResourceNameComponents } from './resource-urn.js';
export {
  escapedDirectivesOf,
  formatResourceLocator,
  locatorOfName,
  maxAlternativeDepth,
  maxLocatorBytes,
  nameOfLocator,
  parseResourceLocator,
} from './resource-locator.js';
export type { EscapedDirectives, ResourceLocator } from './resource-locator.js';
