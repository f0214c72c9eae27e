// Package look is what all web pages of Ingot share: the style sheet, the mark, the script
// that shows times in the reader's zone, and the head of a page.
//
// The services may run separately, each on its own address, so their pages contain
// the style sheet instead of linking to it. Policy allows it by its hash: a page loads
// nothing and runs nothing else. The console, which has many pages, serves the same files
// below its own address.
//
// It must not import a wing.
//
// Imports: the standard library only.
package look
