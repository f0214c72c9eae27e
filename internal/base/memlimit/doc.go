// Package memlimit keeps a process small that has little to remember.
//
// Go lets a heap grow to twice of what is in use before it collects, and gives
// memory back to the system slowly. For a server whose work comes in bursts and
// leaves little behind that is most of its memory. So here is a bound under
// which it collects earlier and gives back at once. What is really in use moves
// the bound: a large server is not made slow, it collects as any Go program.
//
// Imports: the standard library only.
package memlimit
