// Package watch notices that files of a folder change. It does not say which: the
// caller compares the files, because an editor that saves one file causes many
// events, and some events are lost.
//
// Imports: github.com/fsnotify/fsnotify.
package watch
