#!/bin/sh
exec kubectl-confrev render
