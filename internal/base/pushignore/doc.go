// Package pushignore decides which files of an app's folder are not part of the app: for the
// client, which uploads a folder, and for the server, to which git sends one.
//
// The rules are those of the cf CLI for .cfignore, which differ from those of git for .gitignore
// (decision 50).
//
// Imports: github.com/sabhiram/go-gitignore.
package pushignore
