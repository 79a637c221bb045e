// A desk of a library, as a program that workbench talks to in lines of JSON: an agent in another language than Python.
// It answers from a script: patterns over the words decide what to do, and the tools work on books in memory.
"use strict";

const readline = require("node:readline");

const BOOKS = {
  b1: { title: "The Left Hand of Darkness", shelf: "A3", lent: false },
  b2: { title: "Solaris", shelf: "B1", lent: true },
  b3: { title: "Kindred", shelf: "A7", lent: false },
};
const MOST_LOANS = 2;

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

// What is done with a tool is told as it happens, so that the trace knows when and for how long.
function call(name, args, tool) {
  say({ type: "event", tool_call: { name, args } });
  const response = tool(args);
  say({ type: "event", tool_response: { name, response } });
  return response;
}

function findBook({ title }) {
  const found = Object.entries(BOOKS).find(([, book]) => book.title.toLowerCase() === title.toLowerCase());
  return found ? { id: found[0], ...found[1] } : { error: "not in the catalogue" };
}

function lendBook({ book_id }) {
  BOOKS[book_id].lent = true;
  return { due_in_days: 21 };
}

function answer(prompt, state) {
  const loans = state.loans || [];
  const wanted = /\b(?:borrow|lend me|is) (.+?)(?: there)?[.?]?$/i.exec(prompt);
  if (/what have i borrowed/i.test(prompt)) {
    const titles = loans.map((id) => BOOKS[id].title).join(" and ");
    return { response: titles ? `You have ${titles}.` : "You have no books of ours." };
  }
  if (!wanted) {
    return { response: "I answer from a script and have no rule for this." };
  }
  const book = call("find_book", { title: wanted[1] }, findBook);
  if (book.error) {
    throw new Error(`${wanted[1]} is ${book.error}`);
  }
  if (book.lent) {
    return { response: `${book.title} is lent to somebody else.` };
  }
  if (!/borrow|lend/i.test(prompt)) {
    return { response: `${book.title} is on shelf ${book.shelf}.` };
  }
  if (loans.length >= MOST_LOANS) {
    return { response: `You have ${MOST_LOANS} books already, and may not borrow more.` };
  }
  const loan = call("lend_book", { book_id: book.id }, lendBook);
  return {
    response: `${book.title} is yours for ${loan.due_in_days} days. You find it on shelf ${book.shelf}.`,
    state: { loans: [...loans, book.id] },
  };
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { prompt, session } = JSON.parse(line);
  try {
    say({ type: "finished", ...answer(prompt, session.state) });
  } catch (error) {
    say({ type: "failed", message: error.message });
  }
});
