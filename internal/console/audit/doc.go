// Package audit has the console's page of audit events, and their export.
//
// It must not import another part of the console.
//
// Imports: base/cfapi, base/fault, base/pattern, console/page.
package audit
