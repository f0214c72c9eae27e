// Package distro knows the packages of Linux distributions: which command installs a program that is missing.
//
// Imports: the standard library only.
package distro
