// Bench measures Ingot as its users meet it: the built program, started as a
// process, spoken to over HTTP.
//
//	make bench ARGS="[-run REGEXP] [-json FILE] [-profile DIR] [-short]"
//
// or the same flags with `go run .` in this folder, which is a module of its own.
//
// It is a list of sections, one file each, registered in sections (main.go).
// A section reports figures. Each stands beside a peer or a limit that was
// measured in the same run, so that the ratio means something on any machine,
// and is held against a goal where there is one. The program leaves with 1 when
// a goal was missed, or a section could not be measured.
//
// Machines are noisy, and noise only ever slows things down. So a rate is the
// best of several rounds, and the rounds of a figure and of its peer take turns,
// so that a slow minute hits both. Times of single events (a start) are given as
// median and worst.
//
// The program measured is built here, with the flags of the Makefile, unless
// INGOT_BIN names one; the small programs are beside it. Every server has a data
// directory and ports of its own.
//
// A section that pushes apps (testdata/app is what is pushed) removes them before
// its server stops, also when it fails or is interrupted: instances outlive their
// server by design, and nobody else would end them. When a goal is missed the
// section says where the time went, by a profile of a round that is not counted,
// by the log of the server (level debug) and by that of the app.
//
// It may import the standard library, what is needed to measure a bare peer, and
// clients of peers. It must not import the product: what it measures is reached
// from outside, as by anybody else. The one exception is the platform's store,
// with the nouns in it, for rows that a section needs in such numbers that to make
// them through the API would take longer than to measure (routes.go).
package main
