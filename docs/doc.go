// Package docs has the documents of this folder, so that they are compiled into the program; package
// handbook shows them. A document belongs to the program when it is in the folder: README.md lists what
// each is for.
//
// Imports: the standard library only.
package docs

import "embed"

// Files are the documents and their pictures.
//
//go:embed *.md tutorials/*.md decisions/*.md images
var Files embed.FS
