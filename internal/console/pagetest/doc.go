// Package pagetest serves a console for tests, with a fake platform API and one user who is logged
// in, and renders templates.
//
// Only tests import it.
//
// Imports: base/web, console/page.
package pagetest
