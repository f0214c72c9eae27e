// Package system has the console's page about the state of the server.
//
// It must not import another part of the console.
//
// Imports: base/cfapi, base/digits, base/fault, console/chart, console/page.
package system
