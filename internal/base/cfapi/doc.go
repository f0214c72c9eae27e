// Package cfapi has the resources of the v3 API as its clients read them: the command-line client
// and the console. A resource has the fields that one of them needs.
//
// It must not import either of them, and it sends no requests.
//
// Imports: the standard library only.
package cfapi
