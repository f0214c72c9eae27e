// Package listing implements lists of the v3 API: filters, label selectors, order
// and pages. A resource declares its query parameters as Params; Parse turns a
// request into a query of the store, and Write answers with a page and the links
// to the others.
//
// It knows no resource, and must not read the store.
//
// Imports: base/fault, base/web, platform.
package listing
