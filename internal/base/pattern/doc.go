// Package pattern has regular expressions that are compiled when they are used.
//
// Every run of the program initializes all its packages, also one of a client command that takes a few
// milliseconds. A pattern at package level costs such a run 5 to 50 kB, and nearly none of them are used.
//
// It must not import other packages of the product.
//
// Imports: the standard library only.
package pattern
