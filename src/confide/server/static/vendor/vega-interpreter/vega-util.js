// What vega-interpreter needs of vega-util, from the vega bundle that the page has loaded.
export const { DisallowedObjectProperties, ascending, isString } = globalThis.vega;
